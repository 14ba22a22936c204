import { setTimeout as delay } from "node:timers/promises";

/**
 * Asks again and again until `done` answers true.
 * @throws TimeoutError of the signal, with what was last seen as its cause's message, when `deadlineMs` passes.
 */
export async function pollUntil(
  what: string,
  done: () => Promise<true | string>,
  options: { everyMs: number; deadlineMs: number; signal?: AbortSignal },
): Promise<void> {
  const end = performance.now() + options.deadlineMs;
  for (;;) {
    options.signal?.throwIfAborted();
    const seen = await done().catch((error: unknown) =>
      error instanceof Error ? error.message : String(error),
    );
    if (seen === true) return;
    if (performance.now() > end) throw new WaitError(what, options.deadlineMs, seen);
    await delay(options.everyMs, undefined, { signal: options.signal });
  }
}

/**
 * Lets time pass before another look at something that tells nobody of its changes.
 * @throws the signal's reason, as soon as it fires.
 */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
  signal.throwIfAborted();
}

/**
 * The promise, or the signal's reason if that fires before. What the promise stands for goes on behind the caller's back:
 * only for what does no harm then.
 */
export async function unlessAborted<T>(promise: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** As `Promise.all`, but nothing goes on when it ends. @throws the first of their errors */
export async function together<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<R[]> {
  const ended = await Promise.allSettled(items.map(run));
  return ended.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}

/** A wait came to its deadline; `seen` is what was found last. */
export class WaitError extends Error {
  override readonly name = "WaitError";
  readonly seen: string;
  constructor(what: string, deadlineMs: number, seen: string) {
    super(`waited ${deadlineMs} ms until ${what}; last seen: ${seen}`);
    this.seen = seen;
  }
}
