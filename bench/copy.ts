import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { prefixRange } from "../etcd/keys.ts";
import { Store } from "../etcd/store.ts";
import { IN_FLIGHT } from "../etcd/pace.ts";
import { findProgram } from "../testbed/programs/find.ts";
import { besideOthers, inTurns, tell } from "./bench.ts";
import type { Bench, Round } from "./bench.ts";
import { CLUSTER, KEY_BYTES, VALUE_BYTES, fillCluster } from "./copy-data.ts";
import type { CopyAccount, CopyOrder } from "./copy-worker.ts";
import type { Sample } from "./results.ts";
import { PREFIX, clientFlags, mirrorUntil, startSide } from "./sides.ts";
import type { Side } from "./sides.ts";

const run = promisify(execFile);

/** Above it rehome is measured alone, and once: make-mirror would take hours. */
const LARGEST_FOR_PEERS = 100_000;
const MEMORY_EVERY = 100_000;
const MIB = 2 ** 20;

interface Copy {
  readonly dir: string;
  readonly size: number;
  readonly origin: Side;
  readonly destination: Side;
}

type System = "rehome" | "etcdctl make-mirror" | "etcd-benchmark txn-put";

const systems: Readonly<Record<System, (copy: Copy) => Promise<Sample[]>>> = {
  rehome: copyWithRehome,
  "etcdctl make-mirror": copyWithMakeMirror,
  "etcd-benchmark txn-put": putWithBenchmark,
};

/** How fast one cluster's keys are copied between two etcds that nobody else uses, each time into an empty one. */
export const copy: Bench = {
  about: "rehome's data plane, etcdctl make-mirror, and the most that the destination takes in",
  runs: 3,
  sizes: [100_000, 1_000_000],
  round: async (round) => {
    const samples: Sample[] = [];
    for (const size of round.sizes) samples.push(...(await measure(round, size)));
    return samples;
  },
};

async function measure({ dir, number }: Round, size: number): Promise<Sample[]> {
  const isAlone = size > LARGEST_FOR_PEERS;
  if (isAlone && number > 0) return [];
  const names = isAlone ? (["rehome"] as const) : inTurns(Object.keys(systems) as System[], number);
  const origin = await startSide(join(dir, String(size)), "origin");
  try {
    const store = new Store(origin.options);
    await fillCluster(store, size);
    store.close();
    const samples: Sample[] = [];
    for (const [turn, name] of names.entries()) {
      const folder = join(dir, String(size), String(turn));
      const destination = await startSide(folder, "destination");
      try {
        samples.push(...(await systems[name]({ dir: folder, size, origin, destination })));
      } finally {
        await destination.stop();
      }
    }
    const rates = samples.filter(({ metric }) => metric === rateMetric);
    return [...samples, ...besideOthers(rates, ({ system }) => `beside ${system}`)];
  } finally {
    await origin.stop();
  }
}

const rateMetric = "rate";

function rate(system: System, size: number, perSecond: number): Sample {
  tell(`${system}: ${Math.round(perSecond)} keys/s`);
  return { system, size, metric: rateMetric, unit: "keys/s", value: Math.round(perSecond) };
}

async function copyWithRehome({ size, origin, destination }: Copy): Promise<Sample[]> {
  const order: CopyOrder = {
    origin: origin.options,
    destination: destination.options,
    cluster: CLUSTER,
    memoryEvery: MEMORY_EVERY,
  };
  const program = join(import.meta.dirname, "copy-worker.ts");
  const { stdout } = await run(process.execPath, [...(await workerFlags()), program, JSON.stringify(order)]);
  const { keys, ms, cpuMs, peakMemoryBytes, memory } = JSON.parse(stdout) as CopyAccount;
  if (keys !== size) throw new Error(`rehome has copied ${keys} of ${size} keys`);
  const system = "rehome";
  const of = (metric: string, unit: string, value: number): Sample => ({ system, size, metric, unit, value });
  return [
    rate("rehome", size, (1000 * keys) / ms),
    of("CPU time of the worker", "µs a key", Math.round((1000 * cpuMs) / keys)),
    of("peak memory of the worker", "MiB", Math.round(peakMemoryBytes / MIB)),
    ...(memory.length < 3 ? [] : memory).map(({ keys: done, bytes }) => ({
      ...of("memory of the worker", "MiB", Math.round(bytes / MIB)),
      system: `rehome, under way to ${size}`,
      size: done,
    })),
  ];
}

/** V8's flags that a worker is started with, since they decide on its memory. */
async function workerFlags(): Promise<string[]> {
  const manifest = await readFile(join(import.meta.dirname, "..", "package.json"), "utf8");
  const { scripts } = JSON.parse(manifest) as { scripts: { worker: string } };
  return scripts.worker.match(/--max-[a-z-]+=\d+/g) ?? [];
}

async function copyWithMakeMirror({ size, origin, destination }: Copy): Promise<Sample[]> {
  const isThere = async (store: Store) => (await store.count(prefixRange(`${PREFIX}/`))) >= size;
  const ms = await mirrorUntil({ origin, destination, isThere });
  return [rate("etcdctl make-mirror", size, (1000 * size) / ms)];
}

/** As many clients as rehome has transactions in flight, and one put of the same size in each transaction. */
async function putWithBenchmark({ size, destination }: Copy): Promise<Sample[]> {
  const { stdout } = await run(await findProgram("etcd-benchmark"), [
    ...clientFlags(destination),
    "--conns=1",
    `--clients=${IN_FLIGHT}`,
    "txn-put",
    "--txn-ops=1",
    `--key-size=${KEY_BYTES}`,
    `--val-size=${VALUE_BYTES}`,
    `--total=${size}`,
    `--key-space-size=${size}`,
  ]);
  const perSecond = /Requests\/sec:\s*([\d.]+)/.exec(stdout)?.[1];
  if (perSecond === undefined) throw new Error(`etcd-benchmark told no rate:\n${stdout}`);
  return [rate("etcd-benchmark txn-put", size, Number(perSecond))];
}
