import { isCarried } from "./copy.ts";
import { ownKeys, parseKey } from "./keys.ts";
import type { Key } from "./keys.ts";
import { positionText, readPosition } from "./position.ts";
import { put, when } from "./store.ts";
import type { Condition, Entry, Store } from "./store.ts";
import type { Change } from "./watch.ts";
import { forEachConcurrently } from "./writer.ts";
import type { Write, Writer } from "./writer.ts";

export interface TailProgress {
  /** Every change of the cluster up to this origin revision has been acknowledged by the destination. */
  position: bigint;
  /** Changes carried over by this call. */
  changes: number;
  /** Time from a pulse at the origin until it came by here, everything before it being applied; undefined at first. */
  lagMs: number | undefined;
}

export interface FollowOptions {
  readonly cluster: string;
  /** Which families to carry over; all when left out. */
  readonly includes?: (family: string) => boolean;
  /** Whether an update of an object may be written before one that came earlier, of another object; of none when left out. */
  readonly isFree?: (family: string, value: Buffer) => boolean;
  /** Whether {@link Follower.takeChanged} will be asked: the keys take memory, and a tail may go on for weeks. */
  readonly keepsKeys?: boolean;
  /** What has come in already is not applied any more when it fires. */
  readonly signal: AbortSignal;
}

/** Revisions of other tenants after which the position is recorded although nothing of ours has changed. */
const POSITION_EVERY = 2_000n;
/** The same on a quiet shard: its API servers compact its history every five minutes. */
const POSITION_EVERY_MS = 30_000;
/** Updates that are carried over side by side: so few would wait for as many round trips as one after the other. */
const FEWEST_TOGETHER = 4;
/** A reader that is asked to stop waits for them. */
const MOST_TOGETHER = 64;
/** Of them, those under way: whoever watches the destination has to get through them as well. */
const IN_FLIGHT = 16;

/**
 * Applies the origin's changes to the destination, and moves the recorded position with them, so that none is left out and no
 * object goes back, whatever crashes when.
 *
 * Changes go in the origin's order, one by one, since controllers watch the destination. Between them, updates of different
 * objects that depend on nothing are carried over side by side, where they have come in together
 * (docs/adr/0013-updates-side-by-side.md).
 */
export class Follower {
  readonly progress: TailProgress = { position: 0n, changes: 0, lagMs: undefined };
  readonly #origin: Store;
  readonly #writer: Writer;
  readonly #options: FollowOptions;
  readonly #pulse: Key;
  readonly #cursor: Key;
  #changed = new Set<Key>();
  /** The position as the destination's store holds it: behind `progress.position` while nothing of ours changes. */
  #stored = 0n;
  #storedText = "";
  #storedAt = performance.now();
  /** Came in and wait for each other, by their keys. */
  #waiting = new Map<Key, Change>();
  /** Up to here another attempt has begun to carry updates over side by side. */
  #begun: bigint | undefined;

  constructor(origin: Store, writer: Writer, options: FollowOptions) {
    this.#origin = origin;
    this.#writer = writer;
    this.#options = options;
    this.#pulse = ownKeys(origin.prefix, options.cluster).pulse;
    this.#cursor = ownKeys(writer.token.store.prefix, options.cluster).cursor;
  }

  /** @returns the first revision to watch. */
  async start(): Promise<bigint> {
    const recorded = await readPosition(this.#writer.token.store, this.#options.cluster);
    if (!recorded) throw new Error(`${this.#writer.token.store.name}: nothing has been copied yet`);
    const { position, until } = recorded;
    this.#stored = this.progress.position = position;
    this.#storedText = positionText(position, until);
    this.#begun = until;
    return position + 1n;
  }

  /** @param changes the next ones, no revision of which comes in two parts. */
  async take(changes: readonly Change[]): Promise<void> {
    let reached = this.progress.position;
    for (const [index, change] of changes.entries()) {
      if (this.#options.signal.aborted) return;
      const { key, modRevision } = change.entry;
      const isFirst = changes[index - 1]?.entry.modRevision !== modRevision;
      const isLast = changes[index + 1]?.entry.modRevision !== modRevision;
      // The position counts whole revisions, and one may hold several changes.
      reached = isLast ? modRevision : modRevision - 1n;
      const family = this.#familyOf(change);
      if (this.#begun !== undefined) {
        if (family !== undefined) this.#waiting.set(key, change);
        if (reached >= this.#begun) await this.#finish(this.#begun);
      } else if (family === undefined) {
        if (this.#isPulse(change)) await this.#pass(change);
        // The last of a revision whose others were ours: what expires together may belong to many clusters.
        if (isLast && !isFirst && this.#stored === modRevision - 1n) await this.#apply(undefined, reached);
      } else if (isFirst && isLast && this.#isFree(family, change)) {
        if (this.#waiting.has(key) || this.#waiting.size === MOST_TOGETHER) await this.#flush();
        this.#waiting.set(key, change);
      } else {
        await this.#flush();
        await this.#carry(change, reached);
      }
    }
    if (this.#begun !== undefined) return;
    await this.#flush();
    this.progress.position = reached;
    // Without changes of ours the stored position may stay behind; it moves often enough to escape compaction.
    const isOld = performance.now() - this.#storedAt >= POSITION_EVERY_MS;
    if (reached - this.#stored >= POSITION_EVERY || isOld) await this.#apply(undefined, reached);
  }

  takeChanged(): Set<Key> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** Undefined for what is not to be carried over. */
  #familyOf({ entry }: Change): string | undefined {
    const { prefix } = this.#origin;
    const { cluster, includes = () => true } = this.#options;
    const parsed = parseKey(prefix, entry.key);
    const isOurs =
      parsed?.cluster === cluster && includes(parsed.family) && isCarried(prefix, cluster, entry.key);
    return isOurs ? parsed.family : undefined;
  }

  /** An object that is made may be what others depend on. */
  #isFree(family: string, { type, entry }: Change): boolean {
    const isUpdate = type === "Put" && entry.createRevision < entry.modRevision;
    return isUpdate && this.#options.isFree?.(family, entry.value) === true;
  }

  #isPulse({ entry, type }: Change): boolean {
    return type === "Put" && entry.key === this.#pulse;
  }

  /** Everything before the pulse is applied. */
  async #pass({ entry }: Change): Promise<void> {
    await this.#flush();
    this.progress.lagMs = Math.max(0, Date.now() - Number(entry.value.toString()));
  }

  async #flush(): Promise<void> {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    if (waiting.length >= FEWEST_TOGETHER) await this.#carryTogether(waiting);
    else for (const change of waiting) await this.#carry(change, change.entry.modRevision);
  }

  async #carry(change: Change, position: bigint): Promise<void> {
    await this.#apply(writeOf(change), position);
    this.#count([change]);
  }

  async #carryTogether(changes: readonly Change[]): Promise<void> {
    const until = changes.at(-1)!.entry.modRevision;
    await this.#record(undefined, this.#stored, until);
    await this.#write(changes, async () => false);
    await this.#apply(undefined, until);
    this.#count(changes);
  }

  /** Does the rest of what another attempt has begun. What that one has done already is not done again. */
  async #finish(until: bigint): Promise<void> {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    const { store } = this.#writer.token;
    await this.#write(waiting, async ({ key, entry }) => isDone(entry, (await store.get(key)).entry));
    await this.#apply(undefined, until);
    this.#begun = undefined;
    this.#count(waiting);
  }

  /** In no order. Once the position has moved on, none of them can take effect that was sent and not answered. */
  async #write(changes: readonly Change[], isDoneAlready: (write: Write) => Promise<boolean>): Promise<void> {
    const { pace } = this.#writer.token;
    let hasFailed = false;
    const write = async (change: Change) => {
      if (hasFailed || (await isDoneAlready(writeOf(change)))) return;
      const { succeeded } = await this.#writer.apply(writeOf(change), [this.#unmoved()]);
      if (!succeeded) throw this.#moved();
    };
    await forEachConcurrently(changes, IN_FLIGHT, async (change) => {
      await pace
        .run(async () => await write(change))
        .catch((error: unknown) => {
          hasFailed = true;
          throw error;
        });
    });
  }

  async #apply(write: Write | undefined, position: bigint): Promise<void> {
    await this.#record(write, position);
    this.#stored = this.progress.position = position;
  }

  async #record(write: Write | undefined, position: bigint, until?: bigint): Promise<void> {
    const text = positionText(position, until);
    const { store } = this.#writer.token;
    const { succeeded } = await this.#writer.apply(write, [this.#unmoved()], [put(this.#cursor, text)]);
    // The client tries again at another member when one fails, so this very transaction may already be in.
    if (!succeeded && (await store.get(this.#cursor)).entry?.value.toString() !== text) throw this.#moved();
    this.#storedText = text;
    this.#storedAt = performance.now();
  }

  #unmoved(): Condition {
    return when.valueIs(this.#cursor, this.#storedText);
  }

  #moved(): Error {
    return new Error(
      `${this.#writer.token.store.name}: the recorded position is not the one this attempt wrote`,
    );
  }

  #count(changes: readonly Change[]): void {
    this.progress.changes += changes.length;
    if (this.#options.keepsKeys) for (const { entry } of changes) this.#changed.add(entry.key);
  }
}

function writeOf({ entry, type }: Change): Write {
  return { key: entry.key, entry: type === "Put" ? entry : undefined };
}

/** A lease is given anew, since one that has changed does not show. */
function isDone(wanted: Entry | undefined, found: Entry | undefined): boolean {
  if (wanted === undefined || found === undefined) return wanted === found;
  return wanted.lease === "0" && found.lease === "0" && wanted.value.equals(found.value);
}
