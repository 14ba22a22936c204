import { LockedError, isFull } from "./errors.ts";
import { ownKeys } from "./keys.ts";
import type { Key } from "./keys.ts";
import { put, remove, when } from "./store.ts";
import type { Store } from "./store.ts";
import { lockHolder, parseLock } from "./token.ts";
import type { Token } from "./token.ts";

/** A move, the cluster that it moves, and what it wants its turn for: moves that want the same have it side by side. */
export interface Turn {
  readonly cluster: string;
  readonly move: string;
  readonly way: string;
}

/**
 * What moves may not do to a shard, or between two, at the same time, and wait for. It takes no token, so it may be asked for
 * while other steps of the move go on; a move that has lost its lock has lost its turn.
 * @returns whose turn it is, if it is another's
 * @throws LockedError when the move does not hold the lock of its cluster
 */
export async function takeTurn(store: Store, key: Key, turn: Turn): Promise<Turn | undefined> {
  const { cluster, move, way } = turn;
  const { lock } = ownKeys(store.prefix, cluster);
  for (;;) {
    const entries = await store.getMany([key, lock]);
    const [taken, held] = [entries.get(key), entries.get(lock)];
    const holder = held && parseLock(held.value).move;
    if (!held || holder !== move) throw new LockedError(store.name, holder);
    const turns = turnsOf(taken?.value);
    if (turns.some((one) => one.move === move)) return undefined;
    const now = await living(store, turns);
    const other = now.find((one) => one.way !== way);
    if (other) return other;
    const { succeeded } = await store.transact(
      [when.modifiedAt(key, taken?.modRevision ?? 0n), when.modifiedAt(lock, held.modRevision)],
      [put(key, JSON.stringify([...now, { cluster, move, way }]))],
    );
    if (succeeded) return undefined;
  }
}

/** Whose turn it is now. */
export async function turnsNow(store: Store, key: Key): Promise<Turn[]> {
  const { entry } = await store.get(key);
  return await living(store, turnsOf(entry?.value));
}

/** Ends the move's turn, if it has it: to be called before the lock is released. */
export async function passTurn(token: Token, key: Key, move: string): Promise<void> {
  for (;;) {
    const { entry } = await token.store.get(key);
    const turns = turnsOf(entry?.value);
    const others = turns.filter((one) => one.move !== move);
    if (!entry || others.length === turns.length) return;
    const rest = others.length === 0 ? remove(key) : put(key, JSON.stringify(others));
    try {
      const { succeeded } = await token.transact([when.modifiedAt(key, entry.modRevision)], [rest]);
      if (succeeded) return;
    } catch (error) {
      // The end of its lock is the end of its turn too.
      if (isFull(error)) return;
      throw error;
    }
  }
}

/** A move that has lost its lock is over, whatever it has left behind. */
async function living(store: Store, turns: readonly Turn[]): Promise<Turn[]> {
  const holders = await Promise.all(turns.map(async ({ cluster }) => await lockHolder(store, cluster)));
  return turns.filter(({ move }, index) => holders[index] === move);
}

function turnsOf(value: Buffer | undefined): Turn[] {
  return value ? (JSON.parse(value.toString()) as Turn[]) : [];
}
