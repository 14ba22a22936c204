import { isEqual, walk } from "./compare.ts";
import type { Side } from "./compare.ts";
import { logicalClusterKey } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import { IN_FLIGHT } from "./pace.ts";
import { chunksOf, when } from "./store.ts";
import type { Condition, Entry } from "./store.ts";
import { forEachConcurrently } from "./writer.ts";
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

/** What an object says about itself and its owners. */
interface Kinship {
  readonly uid: string;
  readonly owners: readonly string[];
}

/** A write, and the revision of the destination's key when it was compared: 0 where there was none. */
interface PlannedWrite extends Write {
  readonly seen: bigint;
}

/** What waits until others are there. */
interface Held {
  readonly key: Key;
  readonly created: bigint;
  readonly seen: bigint;
}

type Owned = Held & Kinship;

export interface CopyOptions {
  readonly cluster: string;
  /** Each stage is complete at the destination before the next one begins. */
  readonly stages: readonly (readonly ClusterRange[])[];
  /**
   * Tells the owners of an entry that has some, or that they cannot be seen. Such entries come after all others, and
   * after their owners, because a garbage collector watches the destination and deletes what has no owner there.
   */
  readonly kinship?: (entry: Entry) => Kinship | "hidden" | undefined;
  /** Of every write: so that one that comes in late, when its like has long been changed again, has no effect. */
  readonly conditions?: readonly Condition[];
  readonly signal: AbortSignal;
  /** Told now and then, and at the end. */
  readonly onProgress?: (progress: Readonly<CopyProgress>) => void;
}

const PROGRESS_EVERY_MS = 100;

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
  readonly #owned: Owned[] = [];
  readonly #hidden: Held[] = [];
  #toldAt = 0;

  constructor(origin: Required<Side>, writer: Writer, options: CopyOptions) {
    this.#origin = origin;
    this.#writer = writer;
    this.#options = options;
  }

  async run(): Promise<CopyProgress> {
    for (const stage of this.#options.stages) await this.#applyAll(this.#differences(stage));
    for (const generation of this.#generations()) await this.#applyAll(this.#readAgain(generation));
    this.#options.onProgress?.(this.#progress);
    return this.#progress;
  }

  async *#differences(ranges: readonly ClusterRange[]): AsyncGenerator<PlannedWrite, void, undefined> {
    const { store } = this.#writer.token;
    for (const range of ranges) {
      for await (const difference of walk(this.#origin, { store }, range)) {
        const { key, origin: entry } = difference;
        if (!isCarried(store.prefix, this.#options.cluster, key)) continue;
        if (isEqual(difference)) {
          this.#count(entry);
          continue;
        }
        const seen = difference.destination?.modRevision ?? 0n;
        const kinship = entry && this.#options.kinship?.(entry);
        if (!entry || !kinship) {
          yield { key, entry, seen };
          continue;
        }
        const held = { key, seen, created: entry.createRevision };
        if (kinship === "hidden") this.#hidden.push(held);
        else this.#owned.push({ ...held, ...kinship });
      }
    }
  }

  /**
   * Owned objects, owners a generation before what they own. At the end those that do not show their owners: what these
   * own comes too early, as Secrets own hardly anything, and is repaired by who verifies.
   */
  #generations(): Held[][] {
    const generationOf = new Map<string, number>();
    const generations: Held[][] = [];
    // An owner is as a rule older than what it owns, so one pass in order of age knows each owner's generation.
    for (const one of byAge(this.#owned)) {
      const generation = Math.max(...one.owners.map((owner) => generationOf.get(owner) ?? -1)) + 1;
      generationOf.set(one.uid, generation);
      (generations[generation] ??= []).push(one);
    }
    return [...generations, byAge(this.#hidden)];
  }

  async *#readAgain(owned: readonly Held[]): AsyncGenerator<PlannedWrite, void, undefined> {
    const { store, revision } = this.#origin;
    for (const chunk of chunksOf(owned)) {
      const entries = await store.getMany(
        chunk.map(({ key }) => key),
        revision,
      );
      for (const { key, seen } of chunk) yield { key, entry: entries.get(key), seen };
    }
  }

  async #applyAll(writes: AsyncGenerator<PlannedWrite, void, undefined>): Promise<void> {
    const { pace } = this.#writer.token;
    await forEachConcurrently(writes, IN_FLIGHT, async (write) => {
      await pace.run(async () => await this.#apply(write));
      if (write.entry) this.#progress.written += 1;
      else this.#progress.deleted += 1;
      this.#count(write.entry);
      this.#tell();
    });
  }

  /**
   * Writes the key as it was compared and not otherwise: a transaction that the client has repeated at another member
   * may come in twice, the second time when a later change has long been carried over.
   */
  async #apply({ key, entry, seen }: PlannedWrite): Promise<void> {
    const { store } = this.#writer.token;
    const { conditions = [] } = this.#options;
    for (let revision = seen; ;) {
      this.#options.signal.throwIfAborted();
      const asSeen = [when.modifiedAt(key, revision), ...conditions];
      const { succeeded } = await this.#writer.apply({ key, entry }, asSeen);
      if (succeeded) return;
      const { entry: now } = await store.get(key);
      if (now && entry ? now.value.equals(entry.value) : now === entry) return;
      revision = now?.modRevision ?? 0n;
    }
  }

  #tell(): void {
    const now = performance.now();
    if (now - this.#toldAt < PROGRESS_EVERY_MS) return;
    this.#toldAt = now;
    this.#options.onProgress?.(this.#progress);
  }

  #count(entry: Entry | undefined): void {
    if (!entry) return;
    this.#progress.keys += 1;
    this.#progress.bytes += entry.value.length;
  }
}

function byAge<T extends Held>(held: readonly T[]): T[] {
  return held.toSorted((a, b) => (a.created < b.created ? -1 : 1));
}
