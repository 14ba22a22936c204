import { rangesOf } from "../../etcd/scan.ts";
import type { Store } from "../../etcd/store.ts";
import { clearCopies, copiesPath } from "../../kubernetes/kcp/cache.ts";
import type { ClearOptions } from "../../kubernetes/kcp/cache.ts";
import { isOneOf } from "../../kubernetes/kcp/families.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";

/** What is used from other shards: who may do so is asked by each of them of itself, in the cluster of these. */
const USED_FROM_OUTSIDE = ["apis.kcp.io/apiexports", "tenancy.kcp.io/workspacetypes"];

const CLEARED = { everyMs: 1_000, deadlineMs: 60_000 };

/** @param store of the shard that has the cluster */
export async function isUsedFromOutside(store: Store, cluster: string): Promise<boolean> {
  return hasUsedFromOutside((await rangesOf(store, cluster)).map(({ family }) => family));
}

function hasUsedFromOutside(families: readonly string[]): boolean {
  return families.some((family) => isOneOf(USED_FROM_OUTSIDE, family));
}

/**
 * Takes away what a shard that does not host the cluster has left of it in kcp's cache.
 * @returns what is left where that does not work: no move waits for it for long.
 */
export async function clearCopiesOf(
  { cache }: KcpSite,
  { cluster, ...shards }: { readonly cluster: string; readonly gone: string; readonly host: string },
  options: ClearOptions,
): Promise<string[]> {
  if (cache === undefined) return [];
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(CLEARED.deadlineMs)]);
  const clear = async () =>
    (await clearCopies(cache, cluster, shards, { ...options, signal })) || "they come again and again";
  try {
    await pollUntil(`copies of ${cluster} are cleared`, clear, { ...CLEARED, signal });
    return [];
  } catch (error) {
    options.signal.throwIfAborted();
    return [
      `copies of ${cluster} in kcp's cache under the shard ${shards.gone}, which may hide those of ${shards.host} (${(error as Error).message})`,
    ];
  }
}

/**
 * @returns warnings: without kcp's cache a provider moves all the same, but is not found any more everywhere when it comes back.
 * @throws ApplicationFailure `Refused` when what is configured does not answer as kcp's cache.
 */
export async function checkCache(
  { cache }: KcpSite,
  shard: string,
  families: readonly string[],
): Promise<string[]> {
  if (cache === undefined) {
    return hasUsedFromOutside(families)
      ? [
          "kcp.cacheServer is not configured: copies of the exports and roles stay behind in kcp's cache, where they may hide the new ones after a restart or a move back",
        ]
      : [];
  }
  const answer = await cache
    .request({ path: copiesPath(shard, "root"), timeoutMs: 10_000 })
    .then(({ status }) => (status === 200 ? undefined : `status ${status}`), String);
  if (answer === undefined) return [];
  throw failure("Refused", {
    message: `kcp.cacheServer: ${cache.url} does not answer as kcp's cache server`,
    found: answer,
    advice: "correct it in rehome.yaml; where kcp has no cache server of its own, it is the root shard",
  });
}
