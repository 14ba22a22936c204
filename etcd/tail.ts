import { isCarried } from "./copy.ts";
import { ownKeys, parseKey, watchedRange } from "./keys.ts";
import type { Key } from "./keys.ts";
import { put, when } from "./store.ts";
import type { Store } from "./store.ts";
import type { Token } from "./token.ts";
import { watch } from "./watch.ts";
import type { Change } from "./watch.ts";
import type { Write, Writer } from "./writer.ts";

export interface TailProgress {
  /** Every change of the cluster up to this origin revision has been acknowledged by the destination. */
  position: bigint;
  /** Changes carried over by this call. */
  changes: number;
  /** Time from a pulse at the origin until it came by here, everything before it being applied; undefined at first. */
  lagMs: number | undefined;
}

export interface TailOptions {
  readonly cluster: string;
  readonly signal: AbortSignal;
  /** Which families to carry over; all when left out. */
  readonly includes?: (family: string) => boolean;
  /** Whether {@link RunningTail.takeChanged} will be asked: the keys take memory, and a tail may go on for weeks. */
  readonly keepsKeys?: boolean;
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
 * The position that the destination's store itself holds, written in the same transactions as the changes: the
 * destination at `revision` equals the origin at `position`. Undefined before the first copy is complete.
 */
export async function readPosition(
  destination: Store,
  cluster: string,
): Promise<{ position: bigint; revision: bigint } | undefined> {
  const { entry, revision } = await destination.get(ownKeys(destination.prefix, cluster).cursor);
  return entry && { position: BigInt(entry.value.toString()), revision };
}

/**
 * What a tail that was stopped has reached: all of `until`, and what came by until it ended.
 * @returns the position, recorded also where nothing of ours has changed since the one before.
 */
export async function settlePosition(destination: Token, until: bigint): Promise<bigint> {
  const recorded = (await readPosition(destination.store, destination.cluster))?.position ?? 0n;
  if (recorded >= until) return recorded;
  await writePosition(destination, until);
  return until;
}

/** Records that the destination equals the origin at `position`. */
export async function writePosition(destination: Token, position: bigint): Promise<void> {
  await destination.transact(
    [],
    [put(ownKeys(destination.store.prefix, destination.cluster).cursor, String(position))],
  );
}

/**
 * Carries the origin's changes over, in order, from the recorded position on, until `until` or until `signal` aborts.
 * Each change is one transaction that also moves the position, so no change is applied twice or left out, whatever
 * crashes when. At which revisions of the destination is not looked at: see floor.ts.
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

class Follower {
  readonly progress: TailProgress = { position: 0n, changes: 0, lagMs: undefined };
  readonly #origin: Store;
  readonly #writer: Writer;
  readonly #options: TailOptions;
  #changed = new Set<Key>();
  /** The position as the destination's store holds it: behind `progress.position` while nothing of ours changes. */
  #stored = 0n;

  constructor(origin: Store, writer: Writer, options: TailOptions) {
    this.#origin = origin;
    this.#writer = writer;
    this.#options = options;
  }

  /** @returns the first revision to watch. */
  async start(): Promise<bigint> {
    const recorded = await readPosition(this.#writer.token.store, this.#options.cluster);
    if (!recorded) throw new Error(`${this.#writer.token.store.name}: nothing has been copied yet`);
    this.#stored = this.progress.position = recorded.position;
    return recorded.position + 1n;
  }

  async take(changes: Change[]): Promise<void> {
    for (const [index, change] of changes.entries()) {
      // What has come in already is not applied when the tail is to stop.
      if (this.#options.signal.aborted) return;
      const { entry, type } = change;
      this.#observePulse(change);
      // The position counts whole revisions, and one may hold several changes.
      const whole = changes[index + 1]?.entry.modRevision !== entry.modRevision;
      this.progress.position = whole ? entry.modRevision : entry.modRevision - 1n;
      if (!this.#isOurs(change)) continue;
      await this.#apply({ key: entry.key, entry: type === "Put" ? entry : undefined });
      this.progress.changes += 1;
      if (this.#options.keepsKeys) this.#changed.add(entry.key);
    }
    // Without changes of ours the stored position may stay behind; it moves often enough to escape compaction.
    if (this.progress.position - this.#stored >= POSITION_EVERY) await this.#apply(undefined);
  }

  takeChanged(): Set<Key> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  #isOurs({ entry }: Change): boolean {
    const { prefix } = this.#origin;
    const { cluster, includes = () => true } = this.#options;
    const parsed = parseKey(prefix, entry.key);
    return parsed?.cluster === cluster && includes(parsed.family) && isCarried(prefix, cluster, entry.key);
  }

  #observePulse({ entry, type }: Change): void {
    if (type !== "Put" || entry.key !== ownKeys(this.#origin.prefix, this.#options.cluster).pulse) return;
    this.progress.lagMs = Math.max(0, Date.now() - Number(entry.value.toString()));
  }

  async #apply(write: Write | undefined): Promise<void> {
    const { position } = this.progress;
    const { token } = this.#writer;
    const { cursor } = ownKeys(token.store.prefix, this.#options.cluster);
    const { succeeded } = await this.#writer.apply(
      write,
      [when.valueIs(cursor, String(this.#stored))],
      [put(cursor, String(position))],
    );
    // The client tries again at another member when one fails, so this very transaction may already be in.
    if (!succeeded && (await readPosition(token.store, this.#options.cluster))?.position !== position) {
      throw new Error(`${token.store.name}: the recorded position is not the one this attempt wrote`);
    }
    this.#stored = position;
  }
}

/** Revisions of other tenants after which the position is recorded although nothing of ours has changed. */
const POSITION_EVERY = 2_000n;
