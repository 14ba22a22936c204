import { LeaseMap } from "./leases.ts";
import type { Key } from "./keys.ts";
import { put, remove } from "./store.ts";
import type { Condition, Entry, Operation } from "./store.ts";
import type { Token } from "./token.ts";

/** What is to become of one key: its new content, or undefined to delete it. */
export interface Write {
  readonly key: Key;
  readonly entry: Entry | undefined;
}

/**
 * Applies writes at the destination under the move's token, with leases carried over.
 *
 * One key a transaction, never more: Kubernetes takes a revision for one event of a resource. A watch that begins or is
 * resumed at a revision skips all that has the same one (apiserver, pkg/storage/cacher/cache_watcher.go: events at or
 * below the resourceVersion of the initial ones are dropped), so of many keys written at one revision an informer that
 * connects meanwhile misses a row of them, for ever. Observed: a garbage collector that did not know of dependents.
 */
export class Writer {
  readonly token: Token;
  readonly #leases: LeaseMap;

  constructor(origin: Token, destination: Token) {
    this.token = destination;
    this.#leases = new LeaseMap(origin.store, destination.store);
  }

  /**
   * Writes one key in one transaction, together with `extra` operations on rehome's own keys; none is fine.
   * @returns whether all `conditions` held, and the destination's revision.
   * @throws SupersededError when a newer attempt has taken over.
   */
  async apply(write: Write | undefined, conditions: Condition[] = [], extra: Operation[] = []) {
    const operations = write ? [await this.#operation(write)] : [];
    return await this.token.transact(conditions, [...operations, ...extra]);
  }

  async #operation({ key, entry }: Write): Promise<Operation> {
    if (!entry) return remove(key);
    return put(key, entry.value, await this.#leases.destinationLease(entry.lease));
  }
}

/**
 * Runs `task` for each item with at most `limit` running. The first failure stops the reading of items and is thrown
 * once all started tasks have ended, so that nothing writes behind the caller's back.
 * @param items a generator, where it is asynchronous: the next item is asked for while others are still awaited
 */
export async function forEachConcurrently<T>(
  items: AsyncGenerator<T, void, undefined> | Iterable<T>,
  limit: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const failures: unknown[] = [];
  const takeTurns = async () => {
    while (failures.length === 0) {
      const next = await iterator.next();
      if (next.done === true) return;
      await task(next.value);
    }
  };
  const turns = Array.from({ length: limit }, async () => {
    await takeTurns().catch((error: unknown) => failures.push(error));
  });
  await Promise.all(turns);
  if (failures.length === 0) return;
  await iterator.return?.();
  throw failures[0];
}
