import { LockedError, SupersededError, isFull } from "./errors.ts";
import { ownKeys } from "./keys.ts";
import { Pace } from "./pace.ts";
import { put, removeRange, when } from "./store.ts";
import type { Condition, Operation, Store } from "./store.ts";

/**
 * The lock and fencing token of a move, kept in each store that the move writes to, under one key per cluster:
 * `{"move": <id>, "epoch": <number>}`.
 *
 * Two moves of one cluster cannot both hold it. Within a move every attempt of a mutating step first raises the epoch,
 * and every transaction compares the whole value, so a process that was given up (stopped, paused, cut off) and wakes
 * up later cannot write any more, whatever it believes (Kleppmann, "How to do distributed locking", 2016).
 */
export class Token {
  readonly store: Store;
  readonly cluster: string;
  /** For those who write many keys under the token. */
  readonly pace = new Pace();
  /** The store is full, and the token is that of this move's last attempt. */
  readonly isAdopted: boolean;
  readonly #value: string;

  private constructor(store: Store, cluster: string, value: string, isAdopted = false) {
    this.store = store;
    this.cluster = cluster;
    this.#value = value;
    this.isAdopted = isAdopted;
  }

  /**
   * Takes the lock for `move`, or raises the epoch where the move has it already.
   * @param options.create only the first step of a move may create the lock, so that an old attempt which wakes up
   *   after the move has ended finds nothing to take.
   * @param options.deletesOnly where the store is full, and so takes deletions and nothing else, the token stays as this
   *   move's last attempt has left it. That one can put nothing either.
   * @throws LockedError when another move holds the lock, or nobody does and `create` is not set.
   * @throws SupersededError when a newer attempt has raised the epoch to this one's or above.
   */
  static async raise(
    store: Store,
    cluster: string,
    claim: { move: string; epoch: number },
    options: { create?: boolean; deletesOnly?: boolean } = {},
  ): Promise<Token> {
    const { lock } = ownKeys(store.prefix, cluster);
    const value = JSON.stringify({ move: claim.move, epoch: claim.epoch });
    for (;;) {
      const { entry } = await store.get(lock);
      const held = entry && parseLock(entry.value);
      if (held ? held.move !== claim.move : !options.create) throw new LockedError(store.name, held?.move);
      if (held && held.epoch > claim.epoch) throw new SupersededError(store.name);
      if (entry?.value.toString() === value) return new Token(store, cluster, value);
      try {
        const { succeeded } = await store.transact(
          [when.modifiedAt(lock, entry?.modRevision ?? 0n)],
          [put(lock, value)],
        );
        if (succeeded) return new Token(store, cluster, value);
      } catch (error) {
        if (!entry || !options.deletesOnly || !isFull(error)) throw error;
        return new Token(store, cluster, entry.value.toString(), true);
      }
    }
  }

  /** The condition that every write of this attempt carries. */
  get condition(): Condition {
    return when.valueIs(ownKeys(this.store.prefix, this.cluster).lock, this.#value);
  }

  /**
   * Writes under the token. `conditions` are further ones; the result says whether all of them held.
   * @throws SupersededError when the token is not this attempt's any more: nothing was written.
   */
  async transact(conditions: Condition[], operations: Operation[]) {
    const result = await this.store.transact([this.condition, ...conditions], operations);
    if (!result.succeeded) await this.check();
    return result;
  }

  /** @throws SupersededError unless this attempt still holds the token. */
  async check(): Promise<void> {
    const { entry } = await this.store.get(ownKeys(this.store.prefix, this.cluster).lock);
    if (entry?.value.toString() !== this.#value) throw new SupersededError(this.store.name);
  }

  /** Notes that this attempt is over: who was superseded by it may go on, with a new token. */
  async handBack(): Promise<void> {
    await this.transact([], [put(ownKeys(this.store.prefix, this.cluster).over, this.#value)]);
  }

  /** Whether the attempt that raised the token last has handed it back. */
  static async isHandedBack(store: Store, cluster: string): Promise<boolean> {
    const { lock, over } = ownKeys(store.prefix, cluster);
    const entries = await store.getMany([lock, over]);
    const [held, last] = [lock, over].map((key) => entries.get(key)?.value.toString());
    return held !== undefined && held === last;
  }

  /** Deletes the lock and all of rehome's own keys for this cluster. Nothing can be written under the token after. */
  async release(): Promise<void> {
    await this.transact([], [removeRange(ownKeys(this.store.prefix, this.cluster).all)]);
  }
}

/** The move that holds the lock of `cluster` in `store`, if any. */
export async function lockHolder(store: Store, cluster: string): Promise<string | undefined> {
  const { entry } = await store.get(ownKeys(store.prefix, cluster).lock);
  return entry && parseLock(entry.value).move;
}

export function parseLock(value: Buffer): { move: string; epoch: number } {
  const { move, epoch } = JSON.parse(value.toString()) as { move?: unknown; epoch?: unknown };
  if (typeof move !== "string" || typeof epoch !== "number")
    throw new Error(`unreadable lock: ${value.toString()}`);
  return { move, epoch };
}
