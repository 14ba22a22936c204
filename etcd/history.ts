import { parseKey, watchedRange } from "./keys.ts";
import type { Key } from "./keys.ts";
import type { Store } from "./store.ts";
import { watch } from "./watch.ts";
import type { Change } from "./watch.ts";

/** A piece of a store's history: from the revision `from` up to the pulse (tail.ts) at `until`. */
export interface Period {
  readonly from: bigint;
  readonly until: bigint;
  readonly signal: AbortSignal;
}

/** @throws CompactedError when the history does not reach back to `from` any more. */
export async function* changesIn(store: Store, period: Period): AsyncGenerator<Change, void, undefined> {
  const stop = new AbortController();
  const signal = AbortSignal.any([period.signal, stop.signal]);
  const range = watchedRange(store.prefix);
  for await (const changes of watch(store, { range, from: period.from, signal })) {
    for (const change of changes) {
      if (change.entry.modRevision >= period.until) stop.abort();
      yield change;
    }
  }
  period.signal.throwIfAborted();
}

/** The keys of all clusters but one that went in the period, and did not come again in it. Costs as much as changedKeys. */
export async function deletedOfOthers(
  store: Store,
  { cluster, ...period }: Period & { readonly cluster: string },
): Promise<Set<Key>> {
  const keys = new Set<Key>();
  for await (const { type, entry } of changesIn(store, period)) {
    const parsed = parseKey(store.prefix, entry.key);
    if (type === "Put") keys.delete(entry.key);
    else if (parsed && parsed.cluster !== cluster) keys.add(entry.key);
  }
  return keys;
}
