import { KubeConfig, Watch } from "@kubernetes/client-node";
import { setTimeout as delay } from "node:timers/promises";
import { ApiServer } from "../kubernetes/api-server.ts";

export interface Workspace {
  readonly name: string;
  /** Path of workspaces, e.g. `root:team:app`. */
  readonly path: string;
  /** Id of its logical cluster, e.g. `2lq5vana2dmyhd0o`. */
  readonly cluster: string;
  /** Shard that hosts it, where it was pinned. */
  readonly shard: string | undefined;
}

export interface WorkspaceOptions {
  /** Kubeconfig of a front-proxy whose context has no `/clusters/...` path. */
  readonly kubeconfig: string;
  /** Default `base`. */
  readonly context?: string;
  /** Path of the parent workspace, default `root`. */
  readonly parent?: string;
  readonly name: string;
  /** Shard to put it on; kcp chooses one when not given. */
  readonly shard?: string;
  /** WorkspaceType in `root`; kcp's default for the parent when not given. */
  readonly type?: string;
  readonly readyWithinMs?: number;
}

interface WorkspaceObject {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec: { readonly cluster?: string };
  readonly status?: { readonly phase?: string };
}

/** kcp's informers come back after a minute at most, where a server was gone for a moment. */
const defaultReadyWithinMs = 120_000;
/** kcp looks again after a fifth of a workspace's age, five minutes at most, whether what is in it has gone. */
const goneWithinMs = 360_000;
const lookEveryMs = 50;

/**
 * Creates a workspace and waits until the front-proxy serves its `default` namespace.
 * @throws ApiError (status 409) when there is one of this name; an Error naming the phase when the time is up
 */
export async function createWorkspace(options: WorkspaceOptions): Promise<Workspace> {
  const { kubeconfig, context = "base", parent = "root", name, shard, type } = options;
  const frontProxy = new ApiServer("front-proxy", { kubeconfig, context });
  const collection = `/clusters/${parent}/apis/tenancy.kcp.io/v1alpha1/workspaces`;
  const signal = AbortSignal.timeout(options.readyWithinMs ?? defaultReadyWithinMs);
  const created = await frontProxy.json<WorkspaceObject>({
    method: "POST",
    path: collection,
    body: {
      apiVersion: "tenancy.kcp.io/v1alpha1",
      kind: "Workspace",
      metadata: { name },
      spec: {
        ...(type === undefined ? {} : { type: { name: type, path: "root" } }),
        ...(shard === undefined ? {} : { location: { selector: { matchLabels: { name: shard } } } }),
      },
    },
    signal,
  });
  const ready = await awaitReady(loadKubeconfig(kubeconfig, context), collection, name, created, signal);
  await awaitServed(frontProxy, ready.spec.cluster as string, signal);
  return { name, path: `${parent}:${name}`, cluster: ready.spec.cluster as string, shard };
}

/** Deletes a workspace and waits until it is gone, its contents included. */
export async function deleteWorkspace(
  options: Pick<WorkspaceOptions, "kubeconfig" | "context" | "parent" | "name">,
): Promise<void> {
  const { kubeconfig, context = "base", parent = "root", name } = options;
  const frontProxy = new ApiServer("front-proxy", { kubeconfig, context });
  const collection = `/clusters/${parent}/apis/tenancy.kcp.io/v1alpha1/workspaces`;
  const existing = await frontProxy.find<WorkspaceObject>({ path: `${collection}/${name}` });
  if (existing === undefined) return;
  const signal = AbortSignal.timeout(goneWithinMs);
  const config = loadKubeconfig(kubeconfig, context);
  const gone = watchUntil(config, collection, name, existing, signal, (event) => event === "DELETED");
  await frontProxy.json({ method: "DELETE", path: `${collection}/${name}`, signal });
  await gone;
}

async function awaitReady(
  config: KubeConfig,
  collection: string,
  name: string,
  created: WorkspaceObject,
  signal: AbortSignal,
): Promise<WorkspaceObject> {
  const isReady = (workspace: WorkspaceObject) =>
    workspace.status?.phase === "Ready" && workspace.spec.cluster !== undefined;
  return await watchUntil(config, collection, name, created, signal, (_event, workspace) =>
    isReady(workspace),
  );
}

/** Watches one object from `last` on until `reached` says so; a watch that ends, or has been silent for 30 s, is resumed. */
async function watchUntil(
  config: KubeConfig,
  collection: string,
  name: string,
  last: WorkspaceObject,
  signal: AbortSignal,
  reached: (event: string, workspace: WorkspaceObject) => boolean,
): Promise<WorkspaceObject> {
  let latest = last;
  for (;;) {
    const { promise: ended, resolve, reject } = Promise.withResolvers<WorkspaceObject | undefined>();
    const query = {
      fieldSelector: `metadata.name=${name}`,
      resourceVersion: latest.metadata.resourceVersion,
    };
    const watch = await new Watch(config).watch(
      collection,
      query,
      (event: string, workspace: WorkspaceObject) => {
        latest = workspace;
        if (reached(event, workspace)) resolve(workspace);
      },
      (error: unknown) => (isFailure(error) ? reject(error) : resolve(undefined)),
    );
    const onTimeout = () =>
      reject(new Error(`workspace ${name} is still ${latest.status?.phase ?? "without a phase"}`));
    signal.addEventListener("abort", onTimeout, { once: true });
    try {
      const found = await ended;
      if (found !== undefined) return found;
    } finally {
      signal.removeEventListener("abort", onTimeout);
      watch.abort();
    }
  }
}

/** Not that of a watch that was silent, which the client ends (@kubernetes/client-node, `requestTimeoutMs`). */
function isFailure(error: unknown): error is Error {
  return error instanceof Error && error.name !== "TimeoutError";
}

/** The front-proxy learns of a new cluster a moment after it is Ready, and tells nobody when it has. */
async function awaitServed(frontProxy: ApiServer, cluster: string, signal: AbortSignal): Promise<void> {
  const path = `/clusters/${cluster}/api/v1/namespaces/default`;
  while ((await frontProxy.request({ path, signal })).status !== 200) {
    await delay(lookEveryMs, undefined, { signal });
  }
}

function loadKubeconfig(file: string, context: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromFile(file);
  config.setCurrentContext(context);
  return config;
}
