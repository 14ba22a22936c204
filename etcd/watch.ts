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
  /** What the key held before, where it was asked for and is not compacted. */
  readonly previous?: Entry;
}

export interface WatchOptions {
  readonly range: KeyRange;
  /** First revision of interest. */
  readonly from: bigint;
  readonly signal: AbortSignal;
  readonly previous?: boolean;
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
export async function* watch(store: Store, options: WatchOptions): AsyncGenerator<Change[], void, undefined> {
  const { signal } = options;
  if (signal.aborted) return;
  const stream = await store.watchStream();
  const cancel = () => stream.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    stream.write({
      create_request: {
        key: keyToBuffer(options.range.start),
        range_end: keyToBuffer(options.range.end),
        start_revision: String(options.from),
        prev_kv: options.previous === true,
      },
    });
    // The client's type hides that this is a Node stream; iterating it is what bounds the memory.
    for await (const response of stream as unknown as AsyncIterable<IWatchResponse>) {
      if (response.canceled) throw cancelled(store, response);
      if (response.created) options.onOpen?.();
      if (response.events.length > 0) yield response.events.map(toChange);
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
  const previous = event.prev_kv?.key.length > 0 ? { previous: toEntry(event.prev_kv) } : {};
  return { type: event.type, entry: toEntry(event.kv), ...previous };
}

function cancelled(store: Store, response: IWatchResponse): Error {
  return response.compact_revision === "0"
    ? new Error(`${store.name}: the store ended the watch: ${response.cancel_reason || "no reason given"}`)
    : new CompactedError(store.name, BigInt(response.compact_revision));
}
