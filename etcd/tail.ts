import { Follower } from "./follower.ts";
import type { FollowOptions, TailProgress } from "./follower.ts";
import { ownKeys, watchedRange } from "./keys.ts";
import type { Key } from "./keys.ts";
import { put } from "./store.ts";
import type { Store } from "./store.ts";
import type { Token } from "./token.ts";
import { watch } from "./watch.ts";
import type { Writer } from "./writer.ts";

export interface TailOptions extends FollowOptions {
  readonly onProgress?: (progress: Readonly<TailProgress>) => void;
}

/**
 * Writes a pulse: a mark in the origin's history. Who sees it in the watch has seen everything before it, so it serves
 * as the end of a drain and as the measure of the lag.
 * @returns its revision.
 */
export async function pulse(origin: Token): Promise<bigint> {
  const { pulse: key } = ownKeys(origin.store.prefix, origin.cluster);
  const { revision } = await origin.transact([], [put(key, String(Date.now()))]);
  return revision;
}

/**
 * Carries the origin's changes over from the recorded position on, until `until` or until `signal` aborts: see
 * {@link Follower}. At which revisions of the destination is not looked at: see floor.ts.
 * @throws CompactedError when the position has fallen out of the origin's history: copy again, then tail again.
 * @throws SupersededError when a newer attempt has taken over.
 */
export async function tail(
  origin: Store,
  writer: Writer,
  options: TailOptions & { readonly until?: bigint },
): Promise<TailProgress> {
  await using running = await startTail(origin, writer, options);
  return await (options.until === undefined ? running.ended : running.reach(options.until));
}

/** A tail that goes on while its caller does other things. */
export interface RunningTail extends AsyncDisposable {
  /** Resolves once everything up to `revision`, which must be that of a pulse, is applied. @throws the signal's reason. */
  reach(revision: bigint, signal?: AbortSignal): Promise<TailProgress>;
  /** The keys carried over since this was last asked, where they are kept. */
  takeChanged(): Set<Key>;
  /** Settles when the tail ends: by the abort of its signal, or rejected by what broke it. */
  readonly ended: Promise<TailProgress>;
}

/** Starts a {@link tail}; disposing of it stops it and waits until nothing is written any more. */
export async function startTail(origin: Store, writer: Writer, options: TailOptions): Promise<RunningTail> {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const follower = new Follower(origin, writer, { ...options, signal });
  const from = await follower.start();
  const waiting = new Map<bigint, PromiseWithResolvers<TailProgress>>();
  const settle = () => {
    for (const [revision, waiter] of waiting) {
      if (follower.progress.position < revision) continue;
      waiter.resolve({ ...follower.progress });
      waiting.delete(revision);
    }
  };
  const run = async () => {
    for await (const changes of watch(origin, { range: watchedRange(origin.prefix), from, signal })) {
      await follower.take(changes);
      options.onProgress?.(follower.progress);
      settle();
    }
    return follower.progress;
  };
  let over: { readonly reason: unknown } | undefined;
  const finish = (reason: unknown) => {
    over = { reason };
    for (const waiter of waiting.values()) waiter.reject(reason);
  };
  const ended = run();
  void ended.then(() => finish(signal.reason), finish);
  return {
    ended,
    async reach(revision, until) {
      const waiter = Promise.withResolvers<TailProgress>();
      const giveUp = () => waiter.reject(until?.reason);
      if (until?.aborted) giveUp();
      until?.addEventListener("abort", giveUp, { once: true });
      waiting.set(revision, waiter);
      settle();
      if (over) waiter.reject(over.reason);
      return await waiter.promise;
    },
    takeChanged: () => follower.takeChanged(),
    async [Symbol.asyncDispose]() {
      stop.abort(new Error(`${origin.name}: the tail was stopped`));
      await ended.catch(() => undefined);
    },
  };
}
