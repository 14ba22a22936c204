import { parseKey, prefixRange } from "../etcd/keys.ts";
import { rangesOf } from "../etcd/scan.ts";
import { Store } from "../etcd/store.ts";
import type { Page, ReadOptions, StoreOptions } from "../etcd/store.ts";
import type { KeyRange } from "../etcd/keys.ts";
import { startEtcd } from "../testbed/etcd.ts";
import { inTurns, tell } from "./bench.ts";
import type { Bench, Round } from "./bench.ts";
import { putAll } from "./copy-data.ts";
import type { Sample } from "./results.ts";

const PREFIX = "/registry";
/** Objects of the cluster that is looked for. */
const WANTED_KEYS = 1_000;
const WANTED = "1abc2def3ghi4jkl";
/** Of kcp's own and of tenants: a shard of kcp v0.32 with a few bound APIs has about so many. */
const FAMILIES = 80;
const OTHER_CLUSTERS = 500;
const VALUE = "x".repeat(200);

/** A store that counts what is asked of it. */
class CountingStore extends Store {
  requests = 0;
  keysRead = 0;

  override async read(range: KeyRange, options?: ReadOptions): Promise<Page> {
    const page = await super.read(range, options);
    this.requests += 1;
    this.keysRead += page.entries.length;
    return page;
  }

  override async count(range: KeyRange, revision?: bigint): Promise<number> {
    this.requests += 1;
    return await super.count(range, revision);
  }
}

type Search = (store: CountingStore) => Promise<number>;

const searchByFamilies: Search = async (store) => {
  let found = 0;
  for (const range of await rangesOf(store, WANTED)) {
    for await (const page of store.pages(range)) found += page.length;
  }
  return found;
};

/** Each finds all keys of the cluster and reads them. @returns how many */
const systems: Readonly<Record<string, Search>> = {
  "rehome, a new worker": searchByFamilies,
  "rehome, from then on": searchByFamilies,
  "full scan, keys only": async (store) => await scanAll(store, { keysOnly: true }),
  "full scan, with values": async (store) => await scanAll(store, {}),
};

/** What it costs to find a small cluster on a large shard. */
export const scan: Bench = {
  about: `finding a cluster of ${WANTED_KEYS} objects among the keys of a shard`,
  runs: 3,
  sizes: [10_000, 100_000, 1_000_000],
  round: async (round) => {
    const samples: Sample[] = [];
    for (const size of round.sizes) samples.push(...(await measure(round, size)));
    return samples;
  },
};

async function measure({ dir, number }: Round, size: number): Promise<Sample[]> {
  const { endpoint, tls, server } = await startEtcd({ dir, name: `shard-${size}`, tls: true });
  const options: StoreOptions = { name: "etcd", endpoints: [endpoint], prefix: PREFIX, tls };
  const store = new Store(options);
  try {
    await putAll(store, size - WANTED_KEYS, (index) => [otherKey(index), VALUE]);
    await putAll(store, WANTED_KEYS, (index) => [keyOf(index, WANTED, index), VALUE]);
    const samples: Sample[] = [];
    for (const [system, search] of inTurns(Object.entries(systems), number)) {
      samples.push(...(await time(options, { system, search, size })));
    }
    return samples;
  } finally {
    store.close();
    await server.stop();
  }
}

async function time(
  options: StoreOptions,
  { system, search, size }: { system: string; search: Search; size: number },
): Promise<Sample[]> {
  const store = new CountingStore(options);
  try {
    // The first call of a client pays for its connection.
    await store.head();
    if (system === "rehome, from then on") await search(store);
    [store.requests, store.keysRead] = [0, 0];
    const begun = performance.now();
    const found = await search(store);
    const ms = Math.round(performance.now() - begun);
    if (found !== WANTED_KEYS) throw new Error(`${system} has found ${found} of ${WANTED_KEYS} keys`);
    tell(`${system}, ${size} keys: ${ms} ms`);
    const of = (metric: string, unit: string, value: number): Sample => ({
      system,
      size,
      metric,
      unit,
      value,
    });
    return [
      of("keys read", "keys", store.keysRead),
      of("requests", "requests", store.requests),
      of("time", "ms", ms),
    ];
  } finally {
    store.close();
  }
}

async function scanAll(store: CountingStore, options: ReadOptions): Promise<number> {
  let found = 0;
  for await (const page of store.pages(prefixRange(`${PREFIX}/`), options)) {
    found += page.filter(({ key }) => parseKey(PREFIX, key)?.cluster === WANTED).length;
  }
  return found;
}

/** Neighbours on both sides of the wanted cluster in every family. */
function otherKey(index: number): string {
  const neighbour = Math.floor(index / FAMILIES) % OTHER_CLUSTERS;
  return keyOf(index, `${neighbour % 2}${String(neighbour).padStart(15, "z")}`, index);
}

function keyOf(index: number, cluster: string, object: number): string {
  const family = index % FAMILIES;
  const place = ["", "/customresources", `/${family.toString(16).padStart(64, "0")}`][family % 3]!;
  return `${PREFIX}/group-${family % 20}/resource-${family}${place}/${cluster}/default/object-${object}`;
}
