import { startControlPlaneTestbed } from "./control-plane.ts";
import { describeControlPlane } from "./control-plane/describe.ts";
import { fillWithConfigMaps } from "./fill.ts";
import { startLogicalClusterTestbed } from "./logical-cluster.ts";
import type { LogicalClusterTestbed } from "./logical-cluster.ts";
import type { Server } from "./process.ts";
import { describeShardSite } from "./rehome-config.ts";
import { createWorkspace } from "./workspaces.ts";
import type { Workspace } from "./workspaces.ts";

export interface BringUpOptions {
  /** Everything is kept here. */
  readonly dir: string;
  /** Numbers of objects: a workspace is made with each. For logical clusters only. */
  readonly sizes: readonly number[];
  readonly onProgress: (line: string) => void;
}

/** A test bed that is up. */
export interface RunningTestbed {
  readonly servers: readonly Server[];
  /** Content of `.rehome/testbed.json`, beside what every kind has. */
  readonly description: object;
  stop(): Promise<void>;
}

/** What there is to try each kind of move against, by the name of the kind. */
export const kinds: Readonly<Record<string, (options: BringUpOptions) => Promise<RunningTestbed>>> = {
  "logical-cluster": bringUpLogicalCluster,
  "control-plane": bringUpControlPlane,
};

async function bringUpLogicalCluster(options: BringUpOptions): Promise<RunningTestbed> {
  const { dir, sizes, onProgress } = options;
  const testbed = await startLogicalClusterTestbed({
    dir,
    onProgress: (name) => onProgress(`starting ${name}`),
  });
  const workspaces = await fill(testbed, sizes, onProgress);
  const { kcp, temporal, configFile, servers } = testbed;
  const description = {
    rehomeConfig: configFile,
    temporal: { address: temporal.address, namespace: temporal.namespace, uiUrl: temporal.uiUrl },
    kcp: {
      frontProxies: [{ url: kcp.frontProxy.url, kubeconfig: kcp.frontProxy.kubeconfig, context: "base" }],
      shards: Object.fromEntries(
        kcp.shards.map((shard) => [shard.name, { url: shard.url, ...describeShardSite(shard) }]),
      ),
    },
    workspaces,
  };
  return { servers, description, stop: () => testbed.stop() };
}

async function fill(
  testbed: LogicalClusterTestbed,
  sizes: readonly number[],
  onProgress: BringUpOptions["onProgress"],
): Promise<(Workspace & { readonly objects: number })[]> {
  const { kubeconfig } = testbed.kcp.frontProxy;
  const workspaces: (Workspace & { readonly objects: number })[] = [];
  for (const objects of sizes) {
    const name = `objects-${objects}`;
    onProgress(`making workspace root:${name}`);
    const workspace = await createWorkspace({ kubeconfig, name, shard: "root" });
    await fillWithConfigMaps(kubeconfig, workspace.cluster, objects);
    workspaces.push({ ...workspace, objects });
  }
  return workspaces;
}

async function bringUpControlPlane({ dir, sizes, onProgress }: BringUpOptions): Promise<RunningTestbed> {
  if (sizes.length > 0) throw new Error("--sizes is for test beds of kind logical-cluster");
  const testbed = await startControlPlaneTestbed({ dir, onProgress });
  return { servers: testbed.servers, description: describeControlPlane(testbed), stop: () => testbed.stop() };
}
