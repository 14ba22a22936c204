import { LockedError } from "./errors.ts";
import { ownKeys, turnKey } from "./keys.ts";
import { put, remove, when } from "./store.ts";
import type { Store } from "./store.ts";
import { lockHolder, parseLock } from "./token.ts";
import type { Token } from "./token.ts";

/** A move, and the cluster that it moves. */
export interface Turn {
  readonly cluster: string;
  readonly move: string;
}

/**
 * What only one move at a time may do to a store's shard, and the others wait for. It takes no token, so it may be asked for
 * while other steps of the move go on; a move that has lost its lock has lost its turn.
 * @returns whose turn it is, if it is another's
 * @throws LockedError when the move does not hold the lock of its cluster
 */
export async function takeTurn(store: Store, { cluster, move }: Turn): Promise<Turn | undefined> {
  const key = turnKey(store.prefix);
  const { lock } = ownKeys(store.prefix, cluster);
  for (;;) {
    const entries = await store.getMany([key, lock]);
    const [taken, held] = [entries.get(key), entries.get(lock)];
    const holder = held && parseLock(held.value).move;
    if (!held || holder !== move) throw new LockedError(store.name, holder);
    const turn = taken && (JSON.parse(taken.value.toString()) as Turn);
    if (turn?.move === move) return undefined;
    if (turn && (await lockHolder(store, turn.cluster)) === turn.move) return turn;
    const { succeeded } = await store.transact(
      [when.modifiedAt(key, taken?.modRevision ?? 0n), when.modifiedAt(lock, held.modRevision)],
      [put(key, JSON.stringify({ cluster, move }))],
    );
    if (succeeded) return undefined;
  }
}

/** Ends the move's turn, if it has it: to be called before the lock is released. */
export async function passTurn(token: Token, move: string): Promise<void> {
  const key = turnKey(token.store.prefix);
  const { entry } = await token.store.get(key);
  if (!entry || (JSON.parse(entry.value.toString()) as Turn).move !== move) return;
  await token.transact([when.modifiedAt(key, entry.modRevision)], [remove(key)]);
}
