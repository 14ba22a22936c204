import type { IWatchResponse } from "etcd3";
import { CompactedError } from "./errors.ts";
import { keyToBuffer } from "./keys.ts";
import type { KeyRange } from "./keys.ts";
import { toEntry } from "./store.ts";
import type { Entry, Store } from "./store.ts";

export interface Change {
  readonly type: "Put" | "Delete";
  /** For a delete only `key` and `modRevision` mean something. */
  readonly entry: Entry;
}

export interface WatchOptions {
  readonly range: KeyRange;
  /** First revision of interest. */
  readonly from: bigint;
  readonly signal: AbortSignal;
  /** Called once the store has accepted the watch. */
  readonly onOpen?: () => void;
}

/**
 * The changes of a range from revision `from` on, in order, grouped as etcd sends them: one revision is never split
 * over two groups. Ends when `signal` aborts; any break of the stream is thrown, and the caller starts again from
 * what it has applied.
 *
 * etcd3's own watcher is not used because after a broken stream it resumes behind the response *header's* revision,
 * which for a watcher that is still catching up is ahead of the last event it has sent: events would be lost.
 * @throws CompactedError when `from` is no longer in the store's history.
 */
export async function* watch(
  store: Store,
  { range, from, signal, onOpen }: WatchOptions,
): AsyncGenerator<Change[], void, undefined> {
  const begin = (stream: Stream) => stream.write(creation(range, from));
  for await (const { created, events } of responses(store, signal, begin)) {
    if (created) onOpen?.();
    if (events.length > 0) yield events.map(toChange);
  }
}

export interface PastOptions {
  readonly ranges: readonly KeyRange[];
  /** First revision of interest, and the last, which the store has reached. */
  readonly from: bigint;
  readonly until: bigint;
  readonly signal: AbortSignal;
}

const ASK_EVERY_MS = 50;
/** A member that lags, or a proxy, may never answer. What of the cluster's own was written in minutes takes less. */
const SILENT_MS = 5 * 60_000;
/** Of an answer that is about all watches of a stream. */
const ALL = "-1";

/**
 * The deletions in some ranges that have been already, those of each key in their order.
 *
 * etcd reads its history for up to 512 watches at once, ten times a second, and sends to each no more at a time than a thousand
 * revisions that touch its range (etcd v3.6.8, server/storage/mvcc, `syncWatchers` and `watchBatchMaxRevs`). So a watch of
 * everything takes ten seconds for 100,000 revisions, whosever they are, and many narrow ones a fraction of one.
 * @throws CompactedError when `from` is no longer in the store's history.
 */
export async function* pastDeletions(
  store: Store,
  { ranges, from, until, signal }: PastOptions,
): AsyncGenerator<Change, void, undefined> {
  let stream: Stream;
  const begin = (opened: Stream) => {
    stream = opened;
    for (const range of ranges) stream.write(creation(range, from, ["Noput"]));
  };
  // Answered when all watches have caught up, behind what they have been sent. Not before etcd has told of each that it is there.
  const ask = () => stream.write({ progress_request: {} });
  let created = 0;
  let asking: NodeJS.Timeout | undefined;
  const silence = new AbortController();
  const silent = setTimeout(() => silence.abort(), SILENT_MS);
  try {
    for await (const response of responses(store, AbortSignal.any([signal, silence.signal]), begin)) {
      silent.refresh();
      if (response.created && ++created === ranges.length) asking = setInterval(ask, ASK_EVERY_MS);
      yield* response.events.map(toChange).filter(({ entry }) => entry.modRevision <= until);
      if (response.watch_id === ALL && BigInt(response.header.revision) >= until) return;
    }
  } finally {
    clearInterval(asking);
    clearTimeout(silent);
  }
  signal.throwIfAborted();
  throw new Error(`${store.name}: no progress of a watch in ${SILENT_MS / 60_000} min`);
}

type Stream = Awaited<ReturnType<Store["watchStream"]>>;

function creation(range: KeyRange, from: bigint, filters: "Noput"[] = []) {
  const [key, range_end] = [keyToBuffer(range.start), keyToBuffer(range.end)];
  return { create_request: { key, range_end, start_revision: String(from), filters } };
}

/** What etcd says on a stream of watches, until `signal` aborts. */
async function* responses(
  store: Store,
  signal: AbortSignal,
  begin: (stream: Stream) => void,
): AsyncGenerator<IWatchResponse, void, undefined> {
  if (signal.aborted) return;
  const stream = await store.watchStream();
  const cancel = () => stream.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    // It may have fired while the stream was opened, and tells that to no listener.
    if (signal.aborted) return;
    begin(stream);
    // The client's type hides that this is a Node stream; iterating it is what bounds the memory.
    for await (const response of stream as unknown as AsyncIterable<IWatchResponse>) {
      if (response.canceled) throw cancelled(store, response);
      yield response;
    }
    if (!signal.aborted) throw new Error(`${store.name}: the watch stream ended`);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", cancel);
    stream.cancel();
  }
}

function toChange(event: IWatchResponse["events"][number]): Change {
  return { type: event.type, entry: toEntry(event.kv) };
}

function cancelled(store: Store, response: IWatchResponse): Error {
  return response.compact_revision === "0"
    ? new Error(`${store.name}: the store ended the watch: ${response.cancel_reason || "no reason given"}`)
    : new CompactedError(store.name, BigInt(response.compact_revision));
}
