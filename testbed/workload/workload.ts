import { createWorkspace } from "../workspaces.ts";
import type { Workspace } from "../workspaces.ts";
import { bindApi, createProvider, installOwnApi } from "./apis.ts";
import { fill } from "./fill.ts";
import type { Filling } from "./fill.ts";
import { FrontProxy } from "./front-proxy.ts";

export interface WorkloadOptions {
  /** Kubeconfig of a front-proxy whose context `base` has no `/clusters/...` path. */
  readonly kubeconfig: string;
  /** Of the workspace, directly under `root`. */
  readonly name: string;
  /** Shard that hosts the workspace, and the one whose API it binds. */
  readonly shard: string;
  readonly objects: number;
  readonly onProgress?: (done: number) => void;
}

export interface Workload {
  readonly workspace: Workspace;
  /** The workspace that exports the API that `workspace` has bound. */
  readonly provider: Workspace;
  readonly filling: Filling;
}

/**
 * Makes a workspace as one in use looks: with objects of built-in resources,
 * of a CustomResourceDefinition of its own, and of an API bound from another
 * workspace on the same shard. 20,000 objects take about a minute.
 */
export async function createWorkload(options: WorkloadOptions): Promise<Workload> {
  const { kubeconfig, name, shard, objects, onProgress } = options;
  const frontProxy = await FrontProxy.open(kubeconfig);
  try {
    const [provider, workspace] = await Promise.all([
      createProvider(frontProxy, { kubeconfig, name: `${name}-tools`, shard }),
      createWithOwnApi(frontProxy, options),
    ]);
    await bindApi(frontProxy, workspace.cluster, provider);
    const filling = await fill(frontProxy, workspace.cluster, {
      objects,
      ...(onProgress === undefined ? {} : { onProgress }),
    });
    return { workspace, provider, filling };
  } finally {
    frontProxy.close();
  }
}

async function createWithOwnApi(
  frontProxy: FrontProxy,
  { kubeconfig, name, shard }: WorkloadOptions,
): Promise<Workspace> {
  const workspace = await createWorkspace({ kubeconfig, name, shard });
  await installOwnApi(frontProxy, workspace.cluster);
  return workspace;
}
