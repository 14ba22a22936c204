import { isCarried } from "./copy.ts";
import { ownKeys, parseKey } from "./keys.ts";
import type { Key } from "./keys.ts";
import { IN_FLIGHT } from "./pace.ts";
import { positionText, readPosition } from "./position.ts";
import { chunksOf, put, when } from "./store.ts";
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
  /** Whether {@link Follower.takeChanged} will be asked: the keys take memory, and a tail may go on for weeks. */
  readonly keepsKeys?: boolean;
  /** What has come in already is not applied any more when it fires. */
  readonly signal: AbortSignal;
}

/** Revisions of other tenants after which the position is recorded although nothing of ours has changed. */
const POSITION_EVERY = 2_000n;
/** Updates that are carried over side by side: these wait for three round trips together, instead of one each. */
const MOST_TOGETHER = 256;

/**
 * Applies the origin's changes to the destination, and moves the recorded position with them, so that none is applied twice or
 * left out, whatever crashes when.
 *
 * What is made or deleted goes in the origin's order, one by one, since others may depend on it: a garbage collector watches the
 * destination. What lies between, updates of objects that are there, depends on nothing: each resource has a watch of its own,
 * so nobody can rely on the order of two objects' updates. Those that have come in together are carried over side by side, of
 * each key the last one (docs/adr/0013-updates-side-by-side.md).
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
  /** Came in and wait for each other. */
  #waiting: Change[] = [];
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
      const { modRevision } = change.entry;
      const isFirst = changes[index - 1]?.entry.modRevision !== modRevision;
      const isLast = changes[index + 1]?.entry.modRevision !== modRevision;
      // The position counts whole revisions, and one may hold several changes.
      reached = isLast ? modRevision : modRevision - 1n;
      if (this.#begun !== undefined) {
        if (this.#isOurs(change)) this.#waiting.push(change);
        if (reached >= this.#begun) await this.#finish(this.#begun);
      } else if (!this.#isOurs(change)) {
        if (this.#isPulse(change)) await this.#pass(change);
      } else if (isUpdate(change) && isFirst && isLast) {
        this.#waiting.push(change);
        if (this.#waiting.length === MOST_TOGETHER) await this.#flush();
      } else {
        await this.#flush();
        await this.#apply(writeOf(change), reached);
        this.#count([change]);
      }
    }
    if (this.#begun !== undefined) return;
    await this.#flush();
    this.progress.position = reached;
    // Without changes of ours the stored position may stay behind; it moves often enough to escape compaction.
    if (reached - this.#stored >= POSITION_EVERY) await this.#apply(undefined, reached);
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

  #isPulse({ entry, type }: Change): boolean {
    return type === "Put" && entry.key === this.#pulse;
  }

  /** Everything before the pulse is applied. */
  async #pass({ entry }: Change): Promise<void> {
    await this.#flush();
    this.progress.lagMs = Math.max(0, Date.now() - Number(entry.value.toString()));
  }

  async #flush(): Promise<void> {
    const waiting = this.#waiting;
    const last = waiting.at(-1);
    if (last === undefined) return;
    this.#waiting = [];
    const until = last.entry.modRevision;
    const writes = lastOfEach(waiting);
    if (writes.length === 1) await this.#apply(writes[0], until);
    else await this.#applyTogether(writes, until);
    this.#count(waiting);
  }

  async #applyTogether(writes: readonly Write[], until: bigint): Promise<void> {
    await this.#record(undefined, this.#stored, until);
    await this.#write(writes);
    await this.#apply(undefined, until);
  }

  /** Does the rest of what another attempt has begun. What that one has done already is not done again. */
  async #finish(until: bigint): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const writes of chunksOf(lastOfEach(waiting))) {
      const there = await this.#writer.token.store.getMany(writes.map(({ key }) => key));
      await this.#write(writes.filter(({ key, entry }) => !isDone(entry, there.get(key))));
    }
    await this.#apply(undefined, until);
    this.#begun = undefined;
    this.#count(waiting);
  }

  /** In no order. Once the position has moved on, none of them can take effect that was sent and not answered. */
  async #write(writes: readonly Write[]): Promise<void> {
    const { token } = this.#writer;
    await forEachConcurrently(writes, IN_FLIGHT, async (write) => {
      const { succeeded } = await token.pace.run(
        async () => await this.#writer.apply(write, [this.#unmoved()]),
      );
      if (!succeeded) throw this.#moved();
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

function isUpdate({ type, entry }: Change): boolean {
  return type === "Put" && entry.createRevision < entry.modRevision;
}

function writeOf({ entry, type }: Change): Write {
  return { key: entry.key, entry: type === "Put" ? entry : undefined };
}

/** What the changes leave of each key. */
function lastOfEach(changes: readonly Change[]): Write[] {
  return [...new Map(changes.map((change) => [change.entry.key, writeOf(change)])).values()];
}

/** A lease is given anew, since one that has changed does not show. */
function isDone(wanted: Entry | undefined, found: Entry | undefined): boolean {
  if (wanted === undefined || found === undefined) return wanted === found;
  return wanted.lease === "0" && wanted.value.equals(found.value);
}
