import { FamilyDigest, describeDifference, isEqual, walk } from "./compare.ts";
import type { Difference, Side } from "./compare.ts";
import { isCarried } from "./copy.ts";
import { displayKey, keyToBuffer, parseKey } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import { rangesOf } from "./scan.ts";
import type { CountedRange } from "./scan.ts";
import { chunksOf } from "./store.ts";
import type { Store } from "./store.ts";
import { changesIn } from "./history.ts";
import type { Period } from "./history.ts";
import { readPosition } from "./position.ts";
import { forEachConcurrently } from "./writer.ts";

export interface FamilyProof {
  readonly family: string;
  readonly keys: number;
  readonly bytes: number;
  /** SHA-256 over keys and values in key order, hexadecimal: the same on both sides. */
  readonly digest: string;
}

export interface Verification {
  /** Origin revision and destination revision that were compared. */
  readonly position: bigint;
  readonly destinationRevision: bigint;
  readonly families: FamilyProof[];
  /** Keys that differ for a reason that `allowed` gave. */
  readonly allowed: { key: string; rule: string }[];
  /** Number of keys that differ without such a reason, and the first few of them. */
  readonly unequal: number;
  readonly samples: string[];
}

export interface VerifyOptions {
  readonly cluster: string;
  readonly signal: AbortSignal;
  /** Which families to compare; all when left out. */
  readonly includes?: (family: string) => boolean;
  /** The rule that allows a difference, if any does. */
  readonly allowed: (difference: Difference) => Promise<string | undefined>;
  /** Names what differs within two values, for `samples`. */
  readonly partsOf?: (origin: Buffer, destination: Buffer) => readonly string[];
  readonly onProgress?: (keys: number) => void;
}

const SAMPLES = 10;
/** Bounds the memory: a chunk has at most 128 values of 1.5 MiB from each side. */
const CHUNKS_AT_ONCE = 4;

/**
 * Proves, while a tail may go on, that the destination equals the origin: the recorded position pairs one revision of
 * each side, and both are read at exactly these, key by key in order, in constant memory.
 * @throws CompactedError when one of the two has been compacted meanwhile: verify again.
 */
export async function verify(
  origin: Store,
  destination: Store,
  options: VerifyOptions,
): Promise<Verification> {
  const { cluster } = options;
  const recorded = await readPosition(destination, cluster);
  if (!recorded) throw new Error(`${destination.name}: nothing has been copied yet`);
  const left = { store: origin, revision: recorded.position };
  const right = { store: destination, revision: recorded.revision };
  const result = {
    position: recorded.position,
    destinationRevision: recorded.revision,
    families: [] as FamilyProof[],
    allowed: [] as { key: string; rule: string }[],
    unequal: 0,
    samples: [] as string[],
  };
  let keys = 0;
  for (const range of await rangesOnEitherSide(origin, destination, cluster)) {
    if (options.includes?.(range.family) === false) continue;
    const digest = new FamilyDigest();
    for await (const difference of walk(left, right, range)) {
      options.signal.throwIfAborted();
      if (!isCarried(origin.prefix, cluster, difference.key)) continue;
      if (difference.origin && isEqual(difference)) digest.add(difference.origin);
      else {
        const rule = await options.allowed(difference);
        if (rule !== undefined) result.allowed.push({ key: displayKey(difference.key), rule });
        else if (++result.unequal <= SAMPLES)
          result.samples.push(describeDifference(difference, options.partsOf));
      }
      options.onProgress?.(++keys);
    }
    if (digest.keys > 0) result.families.push(proof(range, digest));
  }
  return result;
}

function proof({ family }: ClusterRange, digest: FamilyDigest): FamilyProof {
  return { family, keys: digest.keys, bytes: digest.bytes, digest: digest.finish() };
}

/** The families in which either side holds keys of the cluster, counted at the destination where that has any. */
export async function rangesOnEitherSide(
  origin: Store,
  destination: Store,
  cluster: string,
): Promise<CountedRange[]> {
  const sides = await Promise.all([rangesOf(origin, cluster), rangesOf(destination, cluster)]);
  const byFamily = new Map(sides.flat().map((range) => [range.family, range]));
  return [...byFamily.values()].toSorted((a, b) => (a.start < b.start ? -1 : 1));
}

/**
 * The keys of the cluster that changed in a store from `from` up to the pulse at `until`. Costs as much as there were
 * changes in the store in between.
 */
export async function changedKeys(
  store: Store,
  { cluster, ...period }: Period & { readonly cluster: string },
): Promise<Set<Key>> {
  const keys = new Set<Key>();
  for await (const { entry } of changesIn(store, period)) {
    if (parseKey(store.prefix, entry.key)?.cluster !== cluster) continue;
    if (isCarried(store.prefix, cluster, entry.key)) keys.add(entry.key);
  }
  return keys;
}

/** The keys among `keys` that the two sides do not hold alike. */
export async function compareKeys(
  origin: Side,
  destination: Side,
  keys: Iterable<Key>,
): Promise<Difference[]> {
  const found: Difference[] = [];
  await forEachConcurrently(chunksOf([...keys]), CHUNKS_AT_ONCE, async (chunk) => {
    const [left, right] = await Promise.all(
      [origin, destination].map(async ({ store, revision }) => await store.getMany(chunk, revision)),
    );
    const differences = chunk.map((key) => ({ key, origin: left?.get(key), destination: right?.get(key) }));
    found.push(...differences.filter((one) => (one.origin || one.destination) && !isEqual(one)));
  });
  return found;
}

/** The number of keys in each range, as of `revision`, or the newest. */
export async function countKeys(
  store: Store,
  ranges: readonly ClusterRange[],
  revision?: bigint,
): Promise<number[]> {
  const pin = revision === undefined ? {} : { revision: String(revision) };
  const reads = ranges.map(({ start, end }) => ({
    request_range: { key: keyToBuffer(start), range_end: keyToBuffer(end), count_only: true, ...pin },
  }));
  const answers = await Promise.all(chunksOf(reads).map(async (chunk) => await store.transact([], chunk)));
  return answers.flatMap(({ reads: counted }) => counted.map((read) => read?.count ?? 0));
}
