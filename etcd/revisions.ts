import { CompactedError } from "./errors.ts";
import { ownKeys, parseKey, watchedRange } from "./keys.ts";
import type { Key } from "./keys.ts";
import { isCarried } from "./copy.ts";
import { IN_FLIGHT } from "./pace.ts";
import { put } from "./store.ts";
import type { Entry, Store } from "./store.ts";
import type { Token } from "./token.ts";
import { watch } from "./watch.ts";
import { forEachConcurrently } from "./writer.ts";
import type { Writer } from "./writer.ts";

/**
 * Raises the store's revision to `target` or above.
 *
 * A client's resourceVersion is a revision of the shard it talked to. If the destination counted lower than the origin,
 * a watch resumed there would wait in silence until the destination had caught up (kubernetes issue 107457 is the same
 * trap). With the destination ahead, what the origin wrote at x is written there at y >= x.
 * @returns the revision reached and the number of puts it took.
 */
export async function raiseRevision(
  token: Token,
  target: bigint,
  options: { signal: AbortSignal; onProgress?: (revision: bigint) => void },
): Promise<{ revision: bigint; puts: number }> {
  const { filler } = ownKeys(token.store.prefix, token.cluster);
  let revision = await token.store.head();
  let puts = 0;
  const isDone = () => revision >= target || options.signal.aborted;
  const raise = async () => {
    // Others may have reached it while this one waited for its turn.
    if (isDone()) return;
    puts += 1;
    const result = await token.transact([], [put(filler, "")]);
    if (result.revision > revision) revision = result.revision;
    options.onProgress?.(revision);
  };
  const worker = async () => {
    while (!isDone()) await token.pace.run(raise);
  };
  const missing = target > revision ? Number(target - revision) : 0;
  const results = await Promise.allSettled(Array.from({ length: Math.min(IN_FLIGHT, missing) }, worker));
  for (const result of results) if (result.status === "rejected") throw result.reason;
  options.signal.throwIfAborted();
  return { revision, puts };
}

export interface TombstoneOptions {
  readonly cluster: string;
  /** Revision of a pulse of this move: the history is read up to it. */
  readonly until: bigint;
  readonly signal: AbortSignal;
}

/**
 * Repeats at the destination the deletions that a client may not have seen yet: for each key of the cluster that was
 * deleted within the origin's history and is absent at `until`, its last content is put and deleted again, so that a
 * watch resumed with a resourceVersion from before the deletion sees it.
 * @returns the number of tombstones written.
 */
export async function writeTombstones(
  origin: Store,
  writer: Writer,
  options: TombstoneOptions,
): Promise<number> {
  const deleted = await deletedKeys(origin, options);
  await forEachConcurrently(deleted, IN_FLIGHT, async ([key, last]) => {
    options.signal.throwIfAborted();
    await writer.token.pace.run(async () => {
      await writer.apply({ key, entry: { ...last, lease: "0" } });
      await writer.apply({ key, entry: undefined });
    });
  });
  return deleted.size;
}

/** Keys of the cluster whose newest change up to `until` is a deletion, with their last content. */
async function deletedKeys(origin: Store, options: TombstoneOptions, from = 1n): Promise<Map<Key, Entry>> {
  const { cluster, until } = options;
  const deleted = new Map<Key, Entry>();
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  try {
    for await (const changes of watch(origin, {
      range: watchedRange(origin.prefix),
      from,
      previous: true,
      signal,
    })) {
      for (const { type, entry, previous } of changes) {
        if (entry.modRevision >= until) stop.abort();
        if (entry.modRevision > until || parseKey(origin.prefix, entry.key)?.cluster !== cluster) continue;
        if (type === "Put") deleted.delete(entry.key);
        else if (previous && isCarried(origin.prefix, cluster, entry.key)) deleted.set(entry.key, previous);
      }
    }
  } catch (error) {
    // The history begins where the last compaction left it; nobody could resume from before that at the origin either.
    if (!(error instanceof CompactedError) || error.oldest <= from) throw error;
    return await deletedKeys(origin, options, error.oldest);
  }
  options.signal.throwIfAborted();
  return deleted;
}
