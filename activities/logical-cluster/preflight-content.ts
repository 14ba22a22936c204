import { clusterRange, displayKey } from "../../etcd/keys.ts";
import type { Store } from "../../etcd/store.ts";
import type { Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";

/** Names in a message: enough to see which, few enough to read. */
const SAMPLES = 5;

/**
 * Refuses a cluster whose content would not survive a move.
 *
 * CachedResources: kcp copies their objects into its cache under the name of the shard and hands them to consumers
 * elsewhere. Its informers for them drop a cluster's events while that is fenced, and unlike all others do not list
 * again afterwards (kcp v0.32.3, pkg/server/server.go, CachePartialMetadataDDSIF), so consumers may be served what was
 * deleted, or miss what was made.
 */
export async function refuseUnmovableContent({ name, store }: Shard, cluster: string): Promise<void> {
  for (const resource of ["cachedresources", "cachedresourceendpointslices"]) {
    const range = clusterRange(store.prefix, `cache.kcp.io/${resource}/customresources`, cluster);
    const { entries, count } = await store.read(range, { limit: SAMPLES, keysOnly: true });
    if (count === 0) continue;
    const names = entries.map(({ key }) => displayKey(key.slice(range.start.length))).join(", ");
    const kind = resource === "cachedresources" ? "CachedResource" : "CachedResourceEndpointSlice";
    throw failure("Refused", {
      message: `${cluster} has ${count} ${resource}, whose consumers at other shards would be served stale objects after a move`,
      site: name,
      found: names,
      advice: `delete ${kind} ${names} first, and make it again after the move`,
    });
  }
}

/** What may go wrong and is not refused. */
export async function contentWarnings(
  store: Store,
  cluster: string,
  families: readonly string[],
): Promise<string[]> {
  const mounts: string[] = [];
  for (const family of families.filter((name) => name.startsWith("tenancy.kcp.io/workspaces/"))) {
    for await (const page of store.pages(clusterRange(store.prefix, family, cluster))) {
      for (const { value } of page) {
        const { metadata, spec } = JSON.parse(value.toString()) as Workspace;
        if (spec?.mount !== undefined) mounts.push(metadata.name);
      }
    }
  }
  if (mounts.length === 0) return [];
  const names = mounts.slice(0, SAMPLES).join(", ");
  return [
    `${mounts.length} workspaces in it are mounts (${names}): moving the parent of mounts has not been tried`,
  ];
}

interface Workspace {
  metadata: { name: string };
  spec?: { mount?: unknown };
}
