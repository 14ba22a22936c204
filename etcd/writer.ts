import { LeaseMap } from "./leases.ts";
import type { Key } from "./keys.ts";
import { put, remove } from "./store.ts";
import type { Condition, Entry, Operation } from "./store.ts";
import type { Token } from "./token.ts";

/** etcd refuses transactions of more than 128 operations or conditions (`--max-txn-ops`); ours also carry the token. */
export const MAX_OPERATIONS = 100;
/** etcd refuses requests above 1.5 MiB (`--max-request-bytes`). One object of that size still fits, alone. */
export const MAX_BATCH_BYTES = 512 << 10;

/** What is to become of one key: its new content, or undefined to delete it. */
export interface Write {
  readonly key: Key;
  readonly entry: Entry | undefined;
}

/** A batch of writes to distinct keys, small enough for one transaction. */
export class Batch {
  readonly writes = new Map<Key, Write>();
  #bytes = 0;

  get size(): number {
    return this.writes.size;
  }

  get full(): boolean {
    return this.writes.size >= MAX_OPERATIONS || this.#bytes >= MAX_BATCH_BYTES;
  }

  /** Whether `write` would push the batch over a limit of etcd. */
  wouldOverflow(write: Write): boolean {
    return this.full || (this.size > 0 && this.#bytes + sizeOf(write) > MAX_BATCH_BYTES);
  }

  add(write: Write): void {
    this.writes.set(write.key, write);
    this.#bytes += sizeOf(write);
  }
}

function sizeOf({ key, entry }: Write): number {
  return key.length + (entry?.value.length ?? 0);
}

/** Applies writes at the destination under the move's token, with leases carried over. */
export class Writer {
  readonly token: Token;
  readonly #leases: LeaseMap;

  constructor(origin: Token, destination: Token) {
    this.token = destination;
    this.#leases = new LeaseMap(origin.store, destination.store);
  }

  /**
   * Writes a batch in one transaction, together with `extra` operations.
   * @returns whether all `conditions` held, and the destination's revision.
   * @throws SupersededError when a newer attempt has taken over.
   */
  async apply(batch: Batch, conditions: Condition[] = [], extra: Operation[] = []) {
    const operations: Operation[] = [];
    for (const { key, entry } of batch.writes.values()) {
      if (!entry) operations.push(remove(key));
      else operations.push(put(key, entry.value, await this.#leases.destinationLease(entry.lease)));
    }
    return await this.token.transact(conditions, [...operations, ...extra]);
  }
}

/**
 * Runs `task` for each item with at most `limit` running. The first failure stops the reading of items and is thrown
 * once all started tasks have ended, so that nothing writes behind the caller's back.
 */
export async function forEachConcurrently<T>(
  items: AsyncIterable<T>,
  limit: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let failure: { error: unknown } | undefined;
  for await (const item of items) {
    if (failure) break;
    const run = task(item)
      .catch((error: unknown) => void (failure ??= { error }))
      .finally(() => running.delete(run));
    running.add(run);
    if (running.size >= limit) await Promise.race(running);
  }
  await Promise.all(running);
  if (failure) throw failure.error;
}
