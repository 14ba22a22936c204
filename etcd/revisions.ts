import { CompactedError } from "./errors.ts";
import { ownKeys, parseKey, watchedRange } from "./keys.ts";
import type { Key } from "./keys.ts";
import { isCarried } from "./copy.ts";
import { IN_FLIGHT } from "./pace.ts";
import { put } from "./store.ts";
import type { Store } from "./store.ts";
import type { Token } from "./token.ts";
import { watch } from "./watch.ts";
import type { Change } from "./watch.ts";
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
 * watch resumed with a resourceVersion from before the deletion sees it. The history is read twice, first for what is
 * deleted in the end, since the contents of all deleted objects may be too much to keep.
 * @returns the number of tombstones written.
 */
export async function writeTombstones(
  origin: Store,
  writer: Writer,
  options: TombstoneOptions,
): Promise<number> {
  const deletedAt = new Map<Key, bigint>();
  for await (const { type, entry } of history(origin, options)) {
    if (type === "Put") deletedAt.delete(entry.key);
    else if (isCarried(origin.prefix, options.cluster, entry.key))
      deletedAt.set(entry.key, entry.modRevision);
  }
  if (deletedAt.size === 0) return 0;
  let written = 0;
  const again = history(origin, { ...options, previous: true });
  await forEachConcurrently(again, IN_FLIGHT, async ({ entry: { key, modRevision }, previous }) => {
    if (!previous || deletedAt.get(key) !== modRevision) return;
    options.signal.throwIfAborted();
    await writer.token.pace.run(async () => {
      await writer.apply({ key, entry: { ...previous, lease: "0" } });
      await writer.apply({ key, entry: undefined });
    });
    written += 1;
  });
  return written;
}

/**
 * The changes of a cluster in a store's history, up to `until`. It begins where the last compaction left it: from before
 * that nobody could resume at the origin either.
 */
async function* history(
  store: Store,
  { cluster, until, signal, previous = false }: TombstoneOptions & { readonly previous?: boolean },
): AsyncGenerator<Change, void, undefined> {
  for (let from = 1n; ;) {
    try {
      for await (const changes of watch(store, {
        range: watchedRange(store.prefix),
        from,
        previous,
        signal,
      })) {
        for (const change of changes) {
          const { key, modRevision } = change.entry;
          if (modRevision <= until && parseKey(store.prefix, key)?.cluster === cluster) yield change;
        }
        if (changes.some(({ entry }) => entry.modRevision >= until)) return;
      }
      signal.throwIfAborted();
      return;
    } catch (error) {
      if (!(error instanceof CompactedError) || error.oldest <= from) throw error;
      from = error.oldest;
    }
  }
}
