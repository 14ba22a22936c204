import { isEqual, walk } from "./compare.ts";
import type { Side } from "./compare.ts";
import { logicalClusterKey } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import type { Entry } from "./store.ts";
import { Batch, MAX_OPERATIONS, forEachConcurrently } from "./writer.ts";
import type { Write, Writer } from "./writer.ts";

export interface CopyProgress {
  /** Keys of the origin that the destination now holds alike. */
  keys: number;
  /** Value bytes of those keys. */
  bytes: number;
  /** Keys written, and keys deleted, at the destination. */
  written: number;
  deleted: number;
}

export interface CopyOptions {
  readonly cluster: string;
  /** Each stage is complete at the destination before the next one begins. */
  readonly stages: readonly (readonly ClusterRange[])[];
  /**
   * Entries that come after all others, one transaction at a time, in the order in which the origin created them: for
   * objects whose owners must be there first, because a garbage collector watches the destination.
   */
  readonly last?: (entry: Entry) => boolean;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: Readonly<CopyProgress>) => void;
}

/** Enough transactions in flight to keep the destination busy, few enough that a shard's own writes get through. */
const CONCURRENCY = 8;

/**
 * Whether a key of the cluster is carried over. All are but the LogicalCluster object, whose appearance at the
 * destination is the switch and so has its own step.
 */
export function isCarried(prefix: string, cluster: string, key: Key): boolean {
  return key !== logicalClusterKey(prefix, cluster);
}

/**
 * Makes the destination hold what the origin held at a pinned revision: writes what is missing or different, deletes
 * what is too much. The first copy, the repair after a compaction and the second run after a crash are all this; a run
 * over what an earlier attempt has copied writes only the rest.
 * @throws CompactedError when the pinned revision is gone; SupersededError when a newer attempt has taken over.
 */
export async function copySnapshot(
  origin: Required<Side>,
  writer: Writer,
  options: CopyOptions,
): Promise<CopyProgress> {
  return await new Copy(origin, writer, options).run();
}

class Copy {
  readonly #origin: Required<Side>;
  readonly #writer: Writer;
  readonly #options: CopyOptions;
  readonly #progress: CopyProgress = { keys: 0, bytes: 0, written: 0, deleted: 0 };
  readonly #last: { key: Key; created: bigint }[] = [];

  constructor(origin: Required<Side>, writer: Writer, options: CopyOptions) {
    this.#origin = origin;
    this.#writer = writer;
    this.#options = options;
  }

  async run(): Promise<CopyProgress> {
    for (const stage of this.#options.stages) {
      await forEachConcurrently(
        batched(this.#differences(stage)),
        CONCURRENCY,
        async (batch) => await this.#apply(batch),
      );
    }
    await forEachConcurrently(batched(this.#lastWrites()), 1, async (batch) => await this.#apply(batch));
    return this.#progress;
  }

  async *#differences(ranges: readonly ClusterRange[]): AsyncGenerator<Write, void, undefined> {
    const { store } = this.#writer.token;
    for (const range of ranges) {
      for await (const difference of walk(this.#origin, { store }, range)) {
        const { key, origin: entry } = difference;
        if (!isCarried(store.prefix, this.#options.cluster, key)) continue;
        if (isEqual(difference)) this.#count(entry);
        else if (entry && this.#options.last?.(entry))
          this.#last.push({ key, created: entry.createRevision });
        else yield { key, entry };
      }
    }
  }

  async *#lastWrites(): AsyncGenerator<Write, void, undefined> {
    const { store, revision } = this.#origin;
    const keys = this.#last.toSorted((a, b) => (a.created < b.created ? -1 : 1)).map(({ key }) => key);
    for (let at = 0; at < keys.length; at += MAX_OPERATIONS) {
      const chunk = keys.slice(at, at + MAX_OPERATIONS);
      const entries = await store.getMany(chunk, revision);
      for (const key of chunk) yield { key, entry: entries.get(key) };
    }
  }

  async #apply(batch: Batch): Promise<void> {
    this.#options.signal.throwIfAborted();
    await this.#writer.apply(batch);
    for (const { entry } of batch.writes.values()) {
      if (entry) this.#progress.written += 1;
      else this.#progress.deleted += 1;
      this.#count(entry);
    }
    this.#options.onProgress?.(this.#progress);
  }

  #count(entry: Entry | undefined): void {
    if (!entry) return;
    this.#progress.keys += 1;
    this.#progress.bytes += entry.value.length;
  }
}

async function* batched(writes: AsyncIterable<Write>): AsyncGenerator<Batch, void, undefined> {
  let batch = new Batch();
  for await (const write of writes) {
    if (batch.wouldOverflow(write)) {
      yield batch;
      batch = new Batch();
    }
    batch.add(write);
  }
  if (batch.size > 0) yield batch;
}
