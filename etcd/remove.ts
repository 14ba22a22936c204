import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { displayKey, logicalClusterKey, successor } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import { remove, removeRange, when } from "./store.ts";
import type { Entry, Store } from "./store.ts";
import type { Token } from "./token.ts";

/** Keys deleted in one transaction: each is an event for every API server that watches, so not too many at once. */
const CHUNK = 200;

export interface RemoveOptions {
  readonly ranges: readonly ClusterRange[];
  /** Keys changed after this revision are left alone and handed to `onLate`. */
  readonly unchangedSince: bigint;
  readonly signal: AbortSignal;
  /** Keys that stay whatever their revision. */
  readonly except?: readonly Key[];
  readonly onLate?: (entry: Entry) => Promise<void>;
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
  const spared = new Set(options.except);
  if (!entries.some((entry) => spared.has(entry.key))) {
    const guard = when.notModifiedAfter(chunk, options.unchangedSince);
    const { succeeded } = await token.transact([guard], [removeRange(chunk)]);
    if (succeeded) return entries.length;
  }
  let deleted = 0;
  for (const { key } of entries) if (!spared.has(key) && (await removeKey(token, key, options))) deleted += 1;
  return deleted;
}

async function removeKey(token: Token, key: Key, options: RemoveOptions): Promise<boolean> {
  for (;;) {
    const { entry } = await token.store.get(key);
    if (!entry) return false;
    if (entry.modRevision > options.unchangedSince) {
      await options.onLate?.(entry);
      return false;
    }
    const { succeeded } = await token.transact([when.modifiedAt(key, entry.modRevision)], [remove(key)]);
    if (succeeded) return true;
  }
}

/** A late write that cannot be carried over because the destination's object has changed as well. */
export interface Conflict {
  readonly key: string;
  /** SHA-256 of both values; values themselves may be secrets. "absent" where there is none. */
  readonly origin: string;
  readonly destination: string;
}

/**
 * Carries over a write that the origin acknowledged after the drain, if the destination still holds what was copied.
 * Then the origin's key is removed.
 * @param copiedAt origin revision of the drain.
 * @returns the conflict, when the destination's value is neither the copied one nor the late one; nothing is changed.
 */
export async function carryLateWrite(
  origin: Token,
  destination: Token,
  late: Entry,
  copiedAt: bigint,
): Promise<Conflict | undefined> {
  const { entry: copied } = await origin.store.get(late.key, { revision: copiedAt });
  const { entry: now } = await destination.store.get(late.key);
  if (!now?.value.equals(late.value)) {
    const untouched = copied ? now?.value.equals(copied.value) === true : now === undefined;
    const guard = when.modifiedAt(late.key, now?.modRevision ?? 0n);
    const write = { request_put: { key: Buffer.from(late.key, "latin1"), value: late.value } };
    const carried = untouched && (await destination.transact([guard], [write])).succeeded;
    if (!carried) return { key: displayKey(late.key), origin: digest(late), destination: digest(now) };
  }
  await origin.transact([when.modifiedAt(late.key, late.modRevision)], [remove(late.key)]);
  return undefined;
}

function digest(entry: Entry | undefined): string {
  return entry ? createHash("sha256").update(entry.value).digest("hex") : "absent";
}

/** The cluster's keys left in a store, its LogicalCluster object included. */
export async function remainingKeys(store: Store, ranges: readonly ClusterRange[]): Promise<number> {
  const counts = await Promise.all(ranges.map((range) => store.count(range)));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The key that the cleanup leaves for last: while it stands, a second attempt finds the cluster again. */
export const lastKey = logicalClusterKey;
