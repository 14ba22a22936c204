import { createHash } from "node:crypto";
import { displayKey } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import type { Entry, Store } from "./store.ts";

/** One side of a comparison: a store, as it is now or pinned to a revision. */
export interface Side {
  readonly store: Store;
  readonly revision?: bigint;
}

/** A key that the two sides do not hold alike. At least one of `origin` and `destination` is there. */
export interface Difference {
  readonly key: Key;
  readonly origin: Entry | undefined;
  readonly destination: Entry | undefined;
}

/**
 * Walks one range on both sides in key order, in constant memory.
 * @param visit called for every key of either side, equal ones included.
 * @throws CompactedError when a pinned revision is gone.
 */
export async function* walk(
  origin: Side,
  destination: Side,
  range: ClusterRange,
): AsyncGenerator<Difference, void, undefined> {
  const left = entries(origin, range);
  const right = entries(destination, range);
  try {
    let a = await left.next();
    let b = await right.next();
    while (!a.done || !b.done) {
      const order = a.done ? 1 : b.done ? -1 : compareKeys(a.value.key, b.value.key);
      const from = order <= 0 && !a.done ? a.value : undefined;
      const to = order >= 0 && !b.done ? b.value : undefined;
      yield { key: (from ?? to)!.key, origin: from, destination: to };
      if (from) a = await left.next();
      if (to) b = await right.next();
    }
  } finally {
    await Promise.all([left.return(), right.return()]);
  }
}

async function* entries(
  { store, revision }: Side,
  range: ClusterRange,
): AsyncGenerator<Entry, void, undefined> {
  for await (const page of store.pages(range, revision === undefined ? {} : { revision })) yield* page;
}

function compareKeys(a: Key, b: Key): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function isEqual({ origin, destination }: Difference): boolean {
  return origin !== undefined && destination !== undefined && origin.value.equals(destination.value);
}

/**
 * For people.
 * @param partsOf names what differs within two values, as far as it can tell
 */
export function describeDifference(
  { key, origin, destination }: Difference,
  partsOf: (origin: Buffer, destination: Buffer) => readonly string[] = () => [],
): string {
  const what = !destination
    ? "missing at the destination"
    : !origin
      ? "only at the destination"
      : ["different", ...partsOf(origin.value, destination.value)].join(" ");
  return `${displayKey(key)}: ${what}`;
}

/** A running count and SHA-256 of entries in key order: two equal digests prove two equal families. */
export class FamilyDigest {
  keys = 0;
  bytes = 0;
  readonly #hash = createHash("sha256");

  add(entry: Entry): void {
    this.keys += 1;
    this.bytes += entry.value.length;
    // Lengths go in as well, so that no two lists of entries run together into the same bytes.
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32BE(entry.key.length, 0);
    lengths.writeUInt32BE(entry.value.length, 4);
    this.#hash.update(lengths).update(entry.key, "latin1").update(entry.value);
  }

  /** Hexadecimal; ends the digest. */
  finish(): string {
    return this.#hash.digest("hex");
  }
}
