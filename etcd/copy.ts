import { isEqual, walk } from "./compare.ts";
import type { Difference, Side } from "./compare.ts";
import { logicalClusterKey } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import { Batch, forEachConcurrently } from "./writer.ts";
import type { Writer } from "./writer.ts";

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
  readonly ranges: readonly ClusterRange[];
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
  const progress: CopyProgress = { keys: 0, bytes: 0, written: 0, deleted: 0 };
  await forEachConcurrently(batches(origin, writer, options, progress), CONCURRENCY, async (batch) => {
    options.signal.throwIfAborted();
    await writer.apply(batch);
    for (const { entry } of batch.writes.values()) {
      if (entry) progress.written += 1;
      else progress.deleted += 1;
      count(progress, entry);
    }
    options.onProgress?.(progress);
  });
  return progress;
}

async function* batches(
  origin: Required<Side>,
  writer: Writer,
  { cluster, ranges }: CopyOptions,
  progress: CopyProgress,
): AsyncGenerator<Batch, void, undefined> {
  const { store } = writer.token;
  let batch = new Batch();
  for (const range of ranges) {
    for await (const difference of walk(origin, { store }, range)) {
      if (!isCarried(origin.store.prefix, cluster, difference.key)) continue;
      if (isEqual(difference)) {
        count(progress, difference.origin);
        continue;
      }
      const write = { key: difference.key, entry: difference.origin };
      if (batch.wouldOverflow(write)) {
        yield batch;
        batch = new Batch();
      }
      batch.add(write);
    }
  }
  if (batch.size > 0) yield batch;
}

function count(progress: CopyProgress, entry: Difference["origin"]): void {
  if (!entry) return;
  progress.keys += 1;
  progress.bytes += entry.value.length;
}
