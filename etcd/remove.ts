import { setTimeout as delay } from "node:timers/promises";
import { successor } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import { remove, removeRange, when } from "./store.ts";
import type { Entry } from "./store.ts";
import type { Token } from "./token.ts";

/** Keys deleted in one transaction: each is an event for every API server that watches, so not too many at once. */
const CHUNK = 200;

export interface RemoveOptions {
  readonly ranges: readonly ClusterRange[];
  /** Keys changed after this revision are handed to `onLate`, and stay unless that answers true. */
  readonly unchangedSince: bigint;
  readonly signal: AbortSignal;
  readonly onLate?: (key: Key) => Promise<boolean>;
  readonly onProgress?: (deleted: number) => void;
}

/**
 * Deletes the cluster's keys, each only if it is still as it was at `unchangedSince`, and pauses after each
 * transaction for as long as that took, so that other tenants get at least half of the store.
 * @returns the number of keys deleted.
 * @throws SupersededError when a newer attempt has taken over.
 */
export async function removeKeys(token: Token, options: RemoveOptions): Promise<number> {
  let deleted = 0;
  for (const range of options.ranges) {
    let start = range.start;
    for (;;) {
      options.signal.throwIfAborted();
      const { entries, more } = await token.store.read(
        { start, end: range.end },
        { limit: CHUNK, keysOnly: true },
      );
      const last = entries.at(-1);
      if (!last) break;
      const begun = performance.now();
      deleted += await removeChunk(token, { start, end: successor(last.key) }, entries, options);
      options.onProgress?.(deleted);
      start = successor(last.key);
      if (!more) break;
      await delay(performance.now() - begun, undefined, { signal: options.signal });
    }
  }
  return deleted;
}

async function removeChunk(
  token: Token,
  chunk: { start: Key; end: Key },
  entries: Entry[],
  options: RemoveOptions,
): Promise<number> {
  const guard = when.notModifiedAfter(chunk, options.unchangedSince);
  const { succeeded } = await token.transact([guard], [removeRange(chunk)]);
  if (succeeded) return entries.length;
  let deleted = 0;
  for (const { key } of entries) if (await removeKey(token, key, options)) deleted += 1;
  return deleted;
}

async function removeKey(token: Token, key: Key, options: RemoveOptions): Promise<boolean> {
  for (;;) {
    const { entry } = await token.store.get(key);
    if (!entry) return false;
    if (entry.modRevision > options.unchangedSince && !(await options.onLate?.(key))) return false;
    const { succeeded } = await token.transact([when.modifiedAt(key, entry.modRevision)], [remove(key)]);
    if (succeeded) return true;
  }
}
