import { ownKeys } from "./keys.ts";
import { put, when } from "./store.ts";
import type { Condition, Store } from "./store.ts";
import type { Token } from "./token.ts";

/** How far the destination has come, as its own store holds it. */
export interface Position {
  /** The destination at `revision` equals the origin at `position`. */
  readonly position: bigint;
  readonly revision: bigint;
  /** Of the updates between `position` and this one, which are carried over side by side, some may be there already. */
  readonly until?: bigint;
}

const BETWEEN = ">";

/** What is stored: `<position>`, or `<position>><until>` while updates are carried over side by side. */
export function positionText(position: bigint, until?: bigint): string {
  return until === undefined ? String(position) : `${position}${BETWEEN}${until}`;
}

/** Written in the same transactions as the changes. Undefined before the first copy is complete. */
export async function readPosition(destination: Store, cluster: string): Promise<Position | undefined> {
  const { entry, revision } = await destination.get(ownKeys(destination.prefix, cluster).cursor);
  if (!entry) return undefined;
  const [position, until] = entry.value.toString().split(BETWEEN).map(BigInt);
  // Both sides were equal when the side by side began, and will be when it is done.
  return until === undefined
    ? { position: position!, revision }
    : { position: position!, revision: entry.modRevision, until };
}

/**
 * What a tail that was stopped has reached: all of `until`, and what came by until it ended.
 * @returns the position, recorded also where nothing of ours has changed since the one before.
 */
export async function settlePosition(destination: Token, until: bigint): Promise<bigint> {
  const recorded = await readPosition(destination.store, destination.cluster);
  if (recorded?.until !== undefined) {
    throw new Error(
      `${destination.store.name}: the tail has not ended: it is between ${recorded.position} and ${recorded.until}`,
    );
  }
  if (recorded && recorded.position >= until) return recorded.position;
  const { cursor } = ownKeys(destination.store.prefix, destination.cluster);
  const asRead = recorded ? isAt(destination, recorded.position) : when.modifiedAt(cursor, 0n);
  const { succeeded } = await destination.transact([asRead], [put(cursor, positionText(until))]);
  // The client tries again at another member when one fails, so this very transaction may already be in.
  if (!succeeded && (await readPosition(destination.store, destination.cluster))?.position !== until) {
    throw new Error(`${destination.store.name}: the recorded position has changed meanwhile`);
  }
  return until;
}

/** Holds until the position moves on. */
export function isAt({ store, cluster }: Token, position: bigint): Condition {
  return when.valueIs(ownKeys(store.prefix, cluster).cursor, positionText(position));
}

/** Records that the destination equals the origin at `position`. */
export async function writePosition(destination: Token, position: bigint): Promise<void> {
  const { cursor } = ownKeys(destination.store.prefix, destination.cluster);
  await destination.transact([], [put(cursor, positionText(position))]);
}
