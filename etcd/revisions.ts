import { CompactedError } from "./errors.ts";
import { ownKeys, parseKey } from "./keys.ts";
import type { Key } from "./keys.ts";
import { isCarried } from "./copy.ts";
import { IN_FLIGHT } from "./pace.ts";
import { allRangesOf } from "./scan.ts";
import { chunksOf, put } from "./store.ts";
import type { Entry, Store } from "./store.ts";
import type { Token } from "./token.ts";
import { pastDeletions } from "./watch.ts";
import type { Change } from "./watch.ts";
import { forEachConcurrently } from "./writer.ts";
import type { Writer } from "./writer.ts";

/**
 * Raises the store's revision to `target` or above.
 *
 * A client's resourceVersion is a revision of the shard it talked to. If the destination counted lower than the origin,
 * a watch resumed there would wait in silence until the destination had caught up (kubernetes issue 107457 is the same
 * trap). With the destination ahead until the switch, all that is there stands above what clients have seen.
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
  let written = 0;
  await forEachConcurrently(await deletions(origin, options), IN_FLIGHT, async ([key, deletedAt]) => {
    options.signal.throwIfAborted();
    const entry = await contentBefore(origin, key, deletedAt);
    if (!entry) return;
    await writer.token.pace.run(async () => {
      await writer.apply({ key, entry: { ...entry, lease: "0" } });
      await writer.apply({ key, entry: undefined });
    });
    written += 1;
  });
  return written;
}

/** The keys of the cluster that were deleted up to `until` and are absent then, with the revision of their deletion. */
async function deletions(store: Store, options: TombstoneOptions): Promise<Map<Key, bigint>> {
  const { cluster, until } = options;
  const found = new Map<Key, bigint>();
  for await (const { entry } of allDeletions(store, options)) {
    const isOurs = parseKey(store.prefix, entry.key)?.cluster === cluster;
    if (isOurs && isCarried(store.prefix, cluster, entry.key)) found.set(entry.key, entry.modRevision);
  }
  for (const keys of chunksOf([...found.keys()]))
    for (const key of (await store.getMany(keys, until)).keys()) found.delete(key);
  return found;
}

/** From where the last compaction left the history: from before that nobody could resume at the origin itself. */
async function* allDeletions(
  store: Store,
  { cluster, until, signal }: TombstoneOptions,
): AsyncGenerator<Change, void, undefined> {
  const ranges = await allRangesOf(store, cluster);
  for (let from = 1n; ;) {
    try {
      yield* pastDeletions(store, { ranges, from, until, signal });
      return;
    } catch (error) {
      if (!(error instanceof CompactedError) || error.oldest <= from || error.oldest > until) throw error;
      from = error.oldest;
    }
  }
}

/** Undefined where that has been compacted: then nobody could resume at the origin from before the deletion. */
async function contentBefore(store: Store, key: Key, deletedAt: bigint): Promise<Entry | undefined> {
  try {
    return (await store.get(key, { revision: deletedAt - 1n })).entry;
  } catch (error) {
    if (error instanceof CompactedError) return undefined;
    throw error;
  }
}
