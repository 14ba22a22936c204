import { copySnapshot } from "../etcd/copy.ts";
import { Store } from "../etcd/store.ts";
import type { StoreOptions } from "../etcd/store.ts";
import { writePosition } from "../etcd/position.ts";
import { pulse } from "../etcd/tail.ts";
import { Token } from "../etcd/token.ts";
import { rangesOnEitherSide } from "../etcd/verify.ts";
import { Writer } from "../etcd/writer.ts";
import { copyStages } from "../kubernetes/kcp/families.ts";
import { kinshipOf } from "../kubernetes/stored-object.ts";

/**
 * A copy as the step CopySnapshot makes it (activities/logical-cluster/transfer.ts), in a process of its own, so that
 * its memory and its time are its own.
 */

export interface CopyOrder {
  readonly origin: StoreOptions;
  readonly destination: StoreOptions;
  readonly cluster: string;
  /** Tells the memory after every so many keys. */
  readonly memoryEvery: number;
}

export interface CopyAccount {
  readonly keys: number;
  readonly ms: number;
  /** Of this process, all threads, while it copied. */
  readonly cpuMs: number;
  readonly peakMemoryBytes: number;
  /** Resident memory after so many keys, before the first one as well. */
  readonly memory: readonly { readonly keys: number; readonly bytes: number }[];
}

async function copy({ cluster, memoryEvery, ...sides }: CopyOrder): Promise<CopyAccount> {
  const [from, to] = [new Store(sides.origin), new Store(sides.destination)];
  const claim = { move: "bench", epoch: 1 };
  const [origin, destination] = await Promise.all(
    [from, to].map(async (store) => await Token.raise(store, cluster, claim, { create: true })),
  );
  const memory = [{ keys: 0, bytes: process.memoryUsage.rss() }];
  const cpu = process.cpuUsage();
  const begun = performance.now();
  const revision = await pulse(origin!);
  const ranges = await rangesOnEitherSide(from, to, cluster);
  const { keys } = await copySnapshot({ store: from, revision }, new Writer(origin!, destination!), {
    cluster,
    stages: copyStages(ranges),
    kinship: ({ value }) => kinshipOf(value),
    signal: new AbortController().signal,
    onProgress: ({ keys: done }) => {
      const next = memory.length * memoryEvery;
      if (done >= next) memory.push({ keys: next, bytes: process.memoryUsage.rss() });
    },
  });
  await writePosition(destination!, revision);
  const ms = performance.now() - begun;
  const { user, system } = process.cpuUsage(cpu);
  const peakMemoryBytes = process.resourceUsage().maxRSS * 1024;
  return { keys, ms, cpuMs: (user + system) / 1000, peakMemoryBytes, memory };
}

if (import.meta.main) {
  const account = await copy(JSON.parse(process.argv[2]!) as CopyOrder);
  console.log(JSON.stringify(account));
  process.exit();
}
