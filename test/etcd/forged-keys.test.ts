import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { copySnapshot } from "../../etcd/copy.ts";
import { logicalClusterKey, prefixEnd, prefixRange } from "../../etcd/keys.ts";
import type { Key } from "../../etcd/keys.ts";
import { removeKeys } from "../../etcd/remove.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { put, remove, removeRange } from "../../etcd/store.ts";
import type { Store } from "../../etcd/store.ts";
import { writePosition } from "../../etcd/position.ts";
import { pulse, tail } from "../../etcd/tail.ts";
import { verify } from "../../etcd/verify.ts";
import { PREFIX, fill, never, startMove, twoStores } from "./fixture.ts";
import type { TwoStores } from "./fixture.ts";

/**
 * Tenants choose names so that their keys look like another cluster's. What is copied and deleted must be exactly what
 * the model says is the victim's. The same property is held against kcp's own rule, which guesses, and must break it:
 * a test of forged keys that a naive parser passes would prove nothing.
 */

/** Ids that are prefixes of each other, that are hexadecimal, and that kcp itself uses. */
const IDS = ["1abc2def3ghi4jkl", "1abc2def3ghi4jk", "1abc2def3ghi4jkl0", "a", "ab", "f".repeat(63), "root"];
const IDENTITIES = ["a".repeat(64), "0123456789abcdef".repeat(4)];
/** Clusters of the shard itself. They cannot be moved; their keys lie among the others. */
const SYSTEM = ["system:admin", "system:bound-crds"];

const id = fc.constantFrom(...IDS);
const name = fc.oneof(
  { weight: 4, arbitrary: id },
  { weight: 2, arbitrary: fc.constantFrom(...IDENTITIES) },
  fc.constantFrom("customresources", "core", "configmaps", "cluster", "default", "system:a:b", "x.y:z"),
  fc.stringMatching(/^[a-z0-9]([a-z0-9.:-]{0,20}[a-z0-9])?$/),
);

/** How an API server stores a resource, before the cluster's segment (etcd/keys.ts); core-group CRDs have no group. */
const family = fc.oneof(
  fc.constantFrom("core/configmaps", "core/namespaces", "rbac.authorization.k8s.io/clusterroles"),
  fc
    .tuple(
      fc.oneof(
        fc.constantFrom("shop.dev/gadgets", "core.kcp.io/logicalclusters", "pods"),
        id.map((text) => `${text}.dev/${text.replace(/^\d/, "x")}`),
      ),
      fc.constantFrom("customresources", ...IDENTITIES),
    )
    .map((parts) => parts.join("/")),
);

interface Stored {
  readonly cluster: string;
  readonly key: Key;
}

const stored: fc.Arbitrary<Stored> = fc
  .record({
    family,
    cluster: fc.oneof({ weight: 6, arbitrary: id }, fc.constantFrom(...SYSTEM)),
    namespace: fc.option(name),
    name,
  })
  .map(({ family: at, cluster, namespace, name: object }) => ({
    cluster,
    key: `${PREFIX}/${at}/${cluster}/${namespace === null ? "" : `${namespace}/`}${object}`,
  }));

/** A shard's content, and what happens to it while the move runs. */
interface World {
  readonly victim: string;
  readonly objects: readonly Stored[];
  /** What stands at the destination already, of other clusters. */
  readonly residents: readonly Stored[];
  /** Puts, and where false deletions, in this order. */
  readonly later: readonly (readonly [object: Stored, isPut: boolean])[];
}

const world: fc.Arbitrary<World> = fc.record({
  victim: id,
  objects: fc.uniqueArray(stored, { selector: ({ key }) => key, minLength: 20, maxLength: 60 }),
  residents: fc.uniqueArray(stored, { selector: ({ key }) => key, maxLength: 20 }),
  later: fc.array(fc.tuple(stored, fc.boolean()), { maxLength: 20 }),
});

/** Value and modification revision of every key below the prefix: equal means that nobody has touched it. */
type Content = Map<Key, string>;

async function content(store: Store): Promise<Content> {
  const found: Content = new Map();
  for await (const page of store.pages(prefixRange(`${PREFIX}/`))) {
    for (const { key, value, modRevision } of page) found.set(key, `${modRevision} ${value.toString()}`);
  }
  return found;
}

const values = (all: Content) => new Map([...all].map(([key, text]) => [key, text.replace(/^\d+ /, "")]));
const where = (all: Content, isWanted: (key: Key) => boolean) =>
  new Map([...all].filter(([key]) => isWanted(key)));

/** Something that moves one cluster from store to store while `meanwhile` goes on. */
type Mover = (stores: TwoStores, victim: string, meanwhile: () => Promise<void>) => Promise<void>;

const none = async () => undefined;

const ours: Mover = async (stores, victim, meanwhile) => {
  const { origin, destination, writer } = await startMove(stores, victim, `move of ${victim}`);
  const revision = await pulse(origin);
  const stages = [await rangesOf(stores.origin, victim, revision)];
  await copySnapshot({ store: stores.origin, revision }, writer, { cluster: victim, stages, signal: never });
  await writePosition(destination, revision);
  await meanwhile();
  const until = await pulse(origin);
  await tail(stores.origin, writer, { cluster: victim, signal: never, until });
  const proof = await verify(stores.origin, stores.destination, {
    cluster: victim,
    signal: never,
    allowed: none,
  });
  expect(proof.samples).toEqual([]);
  const ranges = await rangesOf(stores.origin, victim);
  await removeKeys(origin, { ranges, unchangedSince: until, signal: never });
  await origin.release();
  await destination.release();
};

/** The rule of kcp v0.32.3 (pkg/etcd/keys.go, SplitKey): five segments may be either of two layouts. */
function guessedCluster(key: Key, wanted: string): { cluster: string; prefix: Key } | undefined {
  const parts = key.slice(PREFIX.length + 1).split("/");
  if (parts.length < 3) return undefined;
  const isMarked =
    parts[2] === "customresources" || parts.length === 6 || (parts.length === 5 && parts[2] !== wanted);
  const at = isMarked ? 3 : 2;
  const cluster = parts[at];
  // No slash at its end, as there: a cluster whose id begins with this one's goes as well.
  return cluster === undefined
    ? undefined
    : { cluster, prefix: `${PREFIX}/${parts.slice(0, at + 1).join("/")}` };
}

const naive: Mover = async ({ origin, destination }, victim, meanwhile) => {
  await meanwhile();
  const taken = [...(await content(origin))].filter(
    ([key]) => guessedCluster(key, victim)?.cluster === victim && key !== logicalClusterKey(PREFIX, victim),
  );
  for (const [key, text] of taken)
    await destination.transact([], [put(key, text.slice(text.indexOf(" ") + 1))]);
  for (const start of new Set(taken.map(([key]) => guessedCluster(key, victim)!.prefix))) {
    await origin.transact([], [removeRange({ start, end: prefixEnd(start) })]);
  }
};

/** @throws when anything but the victim's keys was copied, deleted or written to. */
async function holds(stores: TwoStores, mover: Mover, { victim, objects, residents, later }: World) {
  await stores.wipe();
  const clusterOf = new Map(
    [...objects, ...residents, ...later.map(([object]) => object)].map(({ key, cluster }) => [key, cluster]),
  );
  const isVictims = (key: Key) => clusterOf.get(key) === victim;
  const isOthers = (key: Key) => !isVictims(key);
  await fill(
    stores.origin,
    objects.map(({ key }) => [key, `first ${key}`]),
  );
  await fill(
    stores.destination,
    residents.filter(({ key }) => isOthers(key)).map(({ key }) => [key, `resident ${key}`]),
  );
  const residing = await content(stores.destination);
  let others: Content | undefined;
  let victims: Content | undefined;
  await mover(stores, victim, async () => {
    for (const [{ key }, isPut] of later)
      await stores.origin.transact([], [isPut ? put(key, `later ${key}`) : remove(key)]);
    const all = await content(stores.origin);
    others = where(all, isOthers);
    victims = where(values(all), (key) => isVictims(key) && key !== logicalClusterKey(PREFIX, victim));
  });
  const [left, right] = [await content(stores.origin), await content(stores.destination)];
  expect(where(left, isOthers)).toEqual(others);
  expect(where(right, isOthers)).toEqual(where(residing, () => true));
  expect(where(values(right), isVictims)).toEqual(victims);
  expect([...left.keys()].filter(isVictims)).toEqual([]);
}

/** Of a built-in resource. */
function storedAt(path: string): Stored {
  return { cluster: path.split("/")[2]!, key: `${PREFIX}/${path}` };
}

let stores: TwoStores;
beforeAll(async () => {
  stores = await twoStores();
});
afterAll(() => stores.stop());

describe("keys that tenants have forged", () => {
  it("are neither copied nor deleted nor written to, whatever they look like", async () => {
    const { failed, counterexample, errorInstance } = await fc.check(
      fc.asyncProperty(world, async (some) => await holds(stores, ours, some)),
      { numRuns: 25, seed: 20_260_601 },
    );
    expect({ failed, counterexample, errorInstance }).toMatchObject({ failed: false });
  });

  it("break a parser that guesses as kcp's does", async () => {
    const { failed, errorInstance } = await fc.check(
      fc.asyncProperty(world, async (some) => await holds(stores, naive, some)),
      { numRuns: 60, seed: 20_260_601, endOnFailure: true },
    );
    expect(failed).toBe(true);
    expect(String(errorInstance)).toMatch(/expected Map/);
  });

  it.each<[string, Key, Key]>([
    [
      "a namespace called like the victim",
      "core/configmaps/ab/1abc2def3ghi4jkl/loot",
      "core/configmaps/ab/1abc2def3ghi4jkl/other",
    ],
    [
      "an id that begins with the victim's",
      "core/configmaps/1abc2def3ghi4jkl0/default/cm",
      "core/configmaps/1abc2def3ghi4jkl/default/cm",
    ],
  ])("break it by %s", async (_what, foreign, bait) => {
    const some: World = {
      victim: "1abc2def3ghi4jkl",
      objects: [storedAt(foreign), storedAt(bait), storedAt("core/configmaps/1abc2def3ghi4jkl/default/own")],
      residents: [],
      later: [],
    };
    await holds(stores, ours, some);
    await expect(holds(stores, naive, some)).rejects.toThrow(/expected Map/);
  });
});
