import { Store, put, remove } from "../etcd/store.ts";
import type { Operation } from "../etcd/store.ts";
import { writePosition } from "../etcd/position.ts";
import { pulse, tail as follow } from "../etcd/tail.ts";
import { Token } from "../etcd/token.ts";
import { Writer, forEachConcurrently } from "../etcd/writer.ts";
import { Toxiproxy } from "../testbed/toxiproxy.ts";
import { besideOthers, inTurns, tell } from "./bench.ts";
import type { Bench } from "./bench.ts";
import { CLUSTER, VALUE_BYTES } from "./copy-data.ts";
import type { Sample } from "./results.ts";
import { PREFIX, mirrorUntil, startSide } from "./sides.ts";
import type { Side } from "./sides.ts";

const OBJECTS = 1_000;
const CHANGES = 1_000;
const IN_FLIGHT = 32;

const keyOf = (number: number) => `${PREFIX}/core/configmaps/${CLUSTER}/default/object-${number}`;
const valueOf = (number: number) => String(number).padEnd(VALUE_BYTES, "x");

/** Changes of a kind, each one transaction. */
interface Changes {
  readonly name: string;
  /** Whether one must have been made before the next. */
  readonly isOrdered: boolean;
  readonly change: (number: number) => Operation;
}

const kinds: readonly Changes[] = [
  {
    name: `updates of ${OBJECTS.toLocaleString("en")} objects`,
    isOrdered: false,
    change: (number) => put(keyOf(number % OBJECTS), valueOf(number)),
  },
  { name: "updates of one object", isOrdered: false, change: (number) => put(keyOf(0), valueOf(number)) },
  {
    name: "objects made and deleted",
    isOrdered: true,
    change: (number) => {
      const key = keyOf(OBJECTS + Math.floor(number / 2));
      return number % 2 === 0 ? put(key, valueOf(number)) : remove(key);
    },
  },
];

interface Tail {
  readonly origin: Side;
  readonly destination: Side;
  /** Of the first change. */
  readonly from: bigint;
}

type System = "rehome" | "etcdctl make-mirror";

/** Each carries all changes over. @returns ms */
const systems: Readonly<Record<System, (tail: Tail) => Promise<number>>> = {
  rehome: tailWithRehome,
  async "etcdctl make-mirror"({ from, ...sides }) {
    const store = new Store(sides.destination.options);
    const end = (await store.head()) + BigInt(CHANGES);
    store.close();
    return await mirrorUntil({ ...sides, from, isThere: async (there) => (await there.head()) >= end });
  },
};

/**
 * How fast changes that clients make meanwhile are carried over: a tenant that makes more is never caught up with. The sizes
 * are ms from here to the destination, one way.
 */
export const tail: Bench = {
  about: "how many changes a second are carried over, near and far, beside etcdctl make-mirror",
  runs: 3,
  sizes: [1, 5, 20],
  async round({ dir, number, sizes }) {
    const origin = await startSide(dir, "origin");
    const near = await startSide(dir, "destination");
    const toxiproxy = await Toxiproxy.start(dir);
    try {
      const endpoint = `https://${await toxiproxy.proxy("far", new URL(near.endpoint).host)}`;
      const destination = { ...near, endpoint, options: { ...near.options, endpoints: [endpoint] } };
      const samples: Sample[] = [];
      for (const kind of kinds) {
        const from = await makeChanges(origin, kind);
        for (const ms of sizes) {
          await using _ = await toxiproxy.delay(["far"], ms);
          for (const system of inTurns(Object.keys(systems) as System[], number)) {
            const tookMs = await systems[system]({ origin, destination, from });
            const value = Math.round((1000 * CHANGES) / tookMs);
            tell(`${system}: ${kind.name}, ${ms} ms away: ${value} a second`);
            samples.push({ system, size: ms, metric: kind.name, unit: "a second", value });
          }
        }
      }
      const beside = besideOthers(samples, ({ system, metric }) => `${metric}, beside ${system}`);
      return [...samples, ...beside];
    } finally {
      await toxiproxy.server.stop();
      await near.stop();
      await origin.stop();
    }
  },
};

/** @returns the revision of the first */
async function makeChanges({ options }: Side, { isOrdered, change }: Changes): Promise<bigint> {
  const store = new Store(options);
  try {
    const numbers = Array.from({ length: OBJECTS }, (_, number) => number);
    await forEachConcurrently(numbers, IN_FLIGHT, async (number) => {
      await store.transact([], [put(keyOf(number), valueOf(number))]);
    });
    const from = (await store.head()) + 1n;
    const changes = Array.from({ length: CHANGES }, (_, number) => number);
    await forEachConcurrently(changes, isOrdered ? 1 : IN_FLIGHT, async (number) => {
      await store.transact([], [change(number)]);
    });
    return from;
  } finally {
    store.close();
  }
}

let epoch = 0;

async function tailWithRehome({ origin, destination, from }: Tail): Promise<number> {
  const stores = [new Store(origin.options), new Store(destination.options)] as const;
  try {
    epoch += 1;
    const claim = { move: "bench", epoch };
    const [here, there] = await Promise.all(
      stores.map(async (store) => await Token.raise(store, CLUSTER, claim, { create: true })),
    );
    await writePosition(there!, from - 1n);
    const until = await pulse(here!);
    const begun = performance.now();
    const { changes } = await follow(stores[0], new Writer(here!, there!), {
      cluster: CLUSTER,
      signal: new AbortController().signal,
      isFree: () => true,
      until,
    });
    if (changes !== CHANGES) throw new Error(`rehome has carried ${changes} of ${CHANGES} changes over`);
    return performance.now() - begun;
  } finally {
    for (const store of stores) store.close();
  }
}
