import { createHash } from "node:crypto";
import { CompactedError } from "./errors.ts";
import { displayKey, ownKeys } from "./keys.ts";
import type { Key } from "./keys.ts";
import { put, remove, when } from "./store.ts";
import type { Entry, Store } from "./store.ts";
import { pulse } from "./tail.ts";
import type { Token } from "./token.ts";
import { changedKeys } from "./verify.ts";

/**
 * Late writes: changes that the origin acknowledged after the drain, because a transaction was already on its way to
 * etcd when the fence cut its request off. They are carried over, as long as nobody has changed the object at the
 * destination meanwhile.
 */

/** A late write that cannot be carried over because the destination's object has changed as well. */
export interface Conflict {
  readonly key: string;
  /** SHA-256 of both values, since values may be secrets; "absent" where there is none. */
  readonly origin: string;
  readonly destination: string;
}

export interface LateOptions {
  /** Origin revision up to which everything has been carried over. */
  readonly drainedAt: bigint;
  /**
   * Whether a change is of what each shard's own controllers write into an object: the destination's write it there, so
   * it is nobody's write that could be lost.
   */
  readonly isShardsOwn?: (before: Entry, after: Entry) => boolean;
}

export interface LateWrites {
  /** Origin revision up to which all have been found; absent where its history was lost, or an older version wrote it. */
  readonly until?: string;
  readonly carried: number;
  readonly conflicts: readonly Conflict[];
  /** The origin's history since the drain was gone already: deletions in it are not known. */
  readonly historyLost: boolean;
}

/**
 * Finds the late writes, deletions included, in the origin's history and carries them over. The result is recorded in
 * the origin before this returns: only then may the cleanup begin, whose own deletions would look the same.
 */
export async function carryLateWrites(
  origin: Token,
  destination: Token,
  options: LateOptions & { readonly signal: AbortSignal },
): Promise<LateWrites> {
  const { cluster, store } = origin;
  const { drainedAt, signal } = options;
  const { late } = ownKeys(store.prefix, cluster);
  const { entry: recorded } = await store.get(late);
  if (recorded) return JSON.parse(recorded.value.toString()) as LateWrites;
  const until = await pulse(origin);
  const keys = await changedKeys(store, { cluster, from: drainedAt + 1n, until, signal }).catch(
    whereCompacted,
  );
  const conflicts: Conflict[] = [];
  let carried = 0;
  for (const key of keys ?? []) {
    const outcome = await carryLateWrite(store, destination, key, options);
    if (outcome === "carried") carried += 1;
    else if (outcome !== "needless") conflicts.push(outcome);
  }
  const result = {
    ...(keys && { until: String(until) }),
    carried,
    conflicts,
    historyLost: keys === undefined,
  };
  await origin.transact([], [put(late, JSON.stringify(result))]);
  return result;
}

/**
 * What is to be done about a key that the cleanup finds changed since the drain. What {@link carryLateWrites} has found is
 * carried over once only: the destination may have changed or deleted it since.
 * @returns the conflict for which it stays at the origin
 */
export async function settleLateWrite(
  origin: Store,
  destination: Token,
  { key, modRevision }: Pick<Entry, "key" | "modRevision">,
  { found, ...options }: LateOptions & { readonly found: LateWrites },
): Promise<Conflict | undefined> {
  if (modRevision > BigInt(found.until ?? 0)) {
    const outcome = await carryLateWrite(origin, destination, key, options);
    return typeof outcome === "string" ? undefined : outcome;
  }
  return found.conflicts.find((conflict) => conflict.key === displayKey(key));
}

/**
 * Once: users may have changed or deleted it when an attempt comes that repeats this, or when etcd is asked again because an
 * answer was lost.
 * @returns `needless` where the destination has it already, or writes its own; the conflict, when the destination's value is
 *   neither the drained one nor the late one: nothing is changed.
 */
async function carryLateWrite(
  origin: Store,
  destination: Token,
  key: Key,
  { drainedAt, isShardsOwn }: LateOptions,
): Promise<"carried" | "needless" | Conflict> {
  const [drained, { entry: late }, { entry: now }] = await Promise.all([
    origin.get(key, { revision: drainedAt }).catch(whereCompacted),
    origin.get(key),
    destination.store.get(key),
  ]);
  const mark = markOf(destination, key, late);
  const isCarried = async () => (await destination.store.get(mark)).entry !== undefined;
  if (await isCarried()) return "carried";
  if (sameValue(now, late)) return "needless";
  if (late && drained?.entry && isShardsOwn?.(drained.entry, late)) return "needless";
  const guard = when.modifiedAt(key, now?.modRevision ?? 0n);
  const write = late ? put(key, late.value) : remove(key);
  const untouched = drained !== undefined && sameValue(now, drained.entry);
  if (untouched) {
    const { succeeded } = await destination.transact([guard], [write, put(mark, "")]);
    if (succeeded || (await isCarried())) return "carried";
  }
  return { key: displayKey(key), origin: digest(late), destination: digest(now) };
}

function markOf({ store, cluster }: Token, key: Key, late: Entry | undefined): Key {
  const name = createHash("sha256")
    .update(`${key} ${late?.modRevision ?? "deleted"}`)
    .digest("hex");
  return `${ownKeys(store.prefix, cluster).carried}/${name}`;
}

/** Without its history the origin cannot tell what was copied, so nothing may be taken for it. */
function whereCompacted(error: unknown): undefined {
  if (!(error instanceof CompactedError)) throw error;
}

function sameValue(a: Entry | undefined, b: Entry | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.value.equals(b.value);
}

function digest(entry: Entry | undefined): string {
  return entry ? createHash("sha256").update(entry.value).digest("hex") : "absent";
}
