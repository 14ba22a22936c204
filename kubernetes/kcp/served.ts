import type { ApiServer } from "../api-server.ts";
import { clusterPath } from "./logical-cluster.ts";
import { hasDeadContext } from "./probe.ts";
import { pollUntil } from "../wait.ts";

/** Long enough for a shard under load to digest a copy; after it the first lists may wait, but nothing is lost. */
const DIGEST_DEADLINE_MS = 60_000;

/**
 * Waits until a shard's API server has digested what was copied into its store: its watch caches are ready and as new
 * as `revision`, for every family, so that the first reads after the switch do not hang on them. Asked with
 * system:masters, which is served although the LogicalCluster is not there yet. The selector keeps the request from
 * being passed on to etcd while a cache is not ready (apiserver, pkg/storage/cacher/delegator.go); for a custom
 * resource the request is also what creates the storage, so that no client meets its 429.
 * @param families as in the etcd keys: `<group>/<resource>[/...]`.
 * @throws WaitError when a family is not served in time.
 */
export async function awaitServed(
  server: ApiServer,
  cluster: string,
  families: readonly string[],
  revision: bigint,
  signal: AbortSignal,
): Promise<void> {
  // A cancelled context answers 504 to every list; it is healed by the switch itself.
  if (await hasDeadContext(server, cluster)) return;
  const paths = (
    await Promise.all(families.map(async (family) => await servedPaths(server, cluster, family)))
  ).flat();
  await Promise.all(
    [...new Set(paths)].map(async (path) => {
      const query = `?limit=1&labelSelector=rehome-warm%3Dx&resourceVersion=${revision}&resourceVersionMatch=NotOlderThan`;
      const served = async () => {
        const { status, body } = await server.request({ path: path + query, timeoutMs: 10_000, signal });
        return status === 200 || status === 404 || status === 405 || `${status} ${body.slice(0, 200)}`;
      };
      const options = { everyMs: 200, deadlineMs: DIGEST_DEADLINE_MS, signal };
      await pollUntil(`${server.name} serves ${path} as of revision ${revision}`, served, options);
    }),
  );
}

/** The paths of a family's resource in every version that the server has for this cluster. */
async function servedPaths(server: ApiServer, cluster: string, family: string): Promise<string[]> {
  const [group = "", resource = ""] = family.split("/");
  if (group === "core") return [clusterPath(cluster, `/api/v1/${resource}`)];
  const path = clusterPath(cluster, `/apis/${group}`);
  const found = await server.find<{ versions?: { version: string }[] }>({ path });
  return (found?.versions ?? []).map(({ version }) => `${path}/${version}/${resource}`);
}
