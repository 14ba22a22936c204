import { ownKeys } from "./keys.ts";
import { IN_FLIGHT } from "./pace.ts";
import { raiseRevision } from "./revisions.ts";
import { rangesOf } from "./scan.ts";
import { put, when } from "./store.ts";
import type { Entry, Store } from "./store.ts";
import type { Token } from "./token.ts";
import { forEachConcurrently } from "./writer.ts";

/**
 * The floor: a revision of the destination that every copied key is above. Until the switch it must also be above all
 * that the origin has counted. Otherwise a client that resumes its watch with the origin's newest resourceVersion is never
 * told the new ones of objects that nobody changes, keeps the old ones in its cache, and has each update of such an object
 * refused with 409. What was deleted while the floor was too low is deleted once more above a new one (revisions.ts, tombstones), and
 * whatever is written at the destination after a floor was laid is above it by itself.
 */
export interface Floor {
  readonly revision: bigint;
  /** The origin's revision when the floor was laid, and when that was (ms since the epoch): tells how fast it counts. */
  readonly origin: bigint;
  readonly at: number;
}

/** Headroom over the origin on a shard that is at rest. */
const LEAST_HEADROOM = 2_000n;
/** The time still to come is taken for twice that which has passed, and for no more than this. */
const FORESIGHT_MS = 10 * 60_000;

/** What the destination's revision must reach to stay above the origin's until the switch, as far as one can foresee. */
export function headroomFor(floor: Floor | undefined, origin: bigint, now: number): bigint {
  if (floor === undefined || now <= floor.at) return LEAST_HEADROOM;
  const perMs = Number(origin - floor.origin) / (now - floor.at);
  const expected = BigInt(Math.ceil(perMs * Math.min(2 * (now - floor.at), FORESIGHT_MS)));
  return expected > LEAST_HEADROOM ? expected : LEAST_HEADROOM;
}

export async function readFloor(destination: Store, cluster: string): Promise<Floor | undefined> {
  const { entry } = await destination.get(ownKeys(destination.prefix, cluster).floor);
  if (entry === undefined) return undefined;
  const { revision, origin, at } = JSON.parse(entry.value.toString()) as Record<keyof Floor, string>;
  return { revision: BigInt(revision), origin: BigInt(origin), at: Number(at) };
}

export async function writeFloor(destination: Token, { revision, origin, at }: Floor): Promise<void> {
  const { floor } = ownKeys(destination.store.prefix, destination.cluster);
  const value = JSON.stringify({ revision: String(revision), origin: String(origin), at: String(at) });
  await destination.transact([], [put(floor, value)]);
}

/**
 * Lays a new floor: raises the destination's revision to `target`, and writes every key of the cluster that stands below
 * once more as it is. What the tail writes meanwhile is newer, and stays.
 * @returns the new floor's revision, and how many keys were written again.
 */
export async function layFloor(
  destination: Token,
  target: bigint,
  options: { readonly signal: AbortSignal; readonly onProgress?: (keys: number) => void },
): Promise<{ revision: bigint; rewritten: number }> {
  const { store, cluster } = destination;
  const { revision } = await raiseRevision(destination, target, { signal: options.signal });
  let rewritten = 0;
  for (const range of await rangesOf(store, cluster)) {
    for await (const page of store.pages(range)) {
      const older = page.filter(({ modRevision }) => modRevision <= revision);
      await forEachConcurrently(older, IN_FLIGHT, async (entry) => {
        options.signal.throwIfAborted();
        await destination.pace.run(async () => await rewrite(destination, entry));
      });
      rewritten += older.length;
      options.onProgress?.(rewritten);
    }
  }
  return { revision, rewritten };
}

/** One key a transaction: see ADR 0006. A key that has changed since it was read is above the floor by that. */
async function rewrite(destination: Token, { key, value, lease, modRevision }: Entry): Promise<void> {
  await destination.transact([when.modifiedAt(key, modRevision)], [put(key, value, lease)]);
}
