import { setTimeout as delay } from "node:timers/promises";
import { successor } from "./keys.ts";
import type { ClusterRange } from "./keys.ts";
import { remove, when } from "./store.ts";
import type { Entry } from "./store.ts";
import type { Token } from "./token.ts";
import { forEachConcurrently } from "./writer.ts";

/** Keys deleted between two pauses. */
const CHUNK = 500;
/** Deletions in flight. */
const AT_ONCE = 16;

export interface RemoveOptions {
  readonly ranges: readonly ClusterRange[];
  /** Keys changed after this revision are handed to `onLate`, and stay unless that answers true. */
  readonly unchangedSince: bigint;
  readonly signal: AbortSignal;
  readonly onLate?: (entry: Pick<Entry, "key" | "modRevision">) => Promise<boolean>;
  readonly onProgress?: (deleted: number) => void;
}

/**
 * Deletes the cluster's keys, each only if it is still as it was at `unchangedSince`, and pauses after each chunk for as
 * long as that took, so that other tenants get at least half of the store. One key a transaction, as in writer.ts.
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
      await forEachConcurrently(entries, AT_ONCE, async (entry) => {
        if (await removeKey(token, entry, options)) deleted += 1;
      });
      options.onProgress?.(deleted);
      start = successor(last.key);
      if (!more) break;
      await delay(performance.now() - begun, undefined, { signal: options.signal });
    }
  }
  return deleted;
}

async function removeKey(token: Token, seen: Entry, options: RemoveOptions): Promise<boolean> {
  for (let entry: Entry | undefined = seen; entry; entry = (await token.store.get(seen.key)).entry) {
    if (entry.modRevision > options.unchangedSince && !(await options.onLate?.(entry))) return false;
    const { succeeded } = await token.transact(
      [when.modifiedAt(entry.key, entry.modRevision)],
      [remove(entry.key)],
    );
    if (succeeded) return true;
  }
  return false;
}
