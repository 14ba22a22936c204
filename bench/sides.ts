import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { Store } from "../etcd/store.ts";
import type { StoreOptions } from "../etcd/store.ts";
import type { ClientTls } from "../testbed/certificates.ts";
import { startEtcd } from "../testbed/etcd.ts";
import { findProgram } from "../testbed/programs/find.ts";

export const PREFIX = "/registry";
const LOOK_EVERY_MS = 100;

/** One etcd with TLS, as a shard has it. */
export interface Side {
  readonly options: StoreOptions & { readonly tls: ClientTls };
  readonly endpoint: string;
  stop(): Promise<void>;
}

export async function startSide(dir: string, name: string): Promise<Side> {
  const { endpoint, tls, server } = await startEtcd({ dir, name, tls: true });
  const options = { name: `etcd of ${name}`, endpoints: [endpoint], prefix: PREFIX, tls: tls! };
  return { options, endpoint, stop: async () => await server.stop() };
}

export function clientFlags({ endpoint, options: { tls } }: Side): string[] {
  return [`--endpoints=${endpoint}`, `--cacert=${tls.ca}`, `--cert=${tls.cert}`, `--key=${tls.key}`];
}

interface Mirroring {
  readonly origin: Side;
  readonly destination: Side;
  /** Only what has changed since, and nothing that was there before. */
  readonly from?: bigint;
  /** Whether all is there: make-mirror goes on for ever. */
  readonly isThere: (destination: Store) => Promise<boolean>;
}

/** Runs `etcdctl make-mirror` until all is there. @returns ms */
export async function mirrorUntil({ origin, destination, from, isThere }: Mirroring): Promise<number> {
  const { ca, cert, key } = destination.options.tls;
  const mirror = spawn(
    await findProgram("etcdctl"),
    [
      ...clientFlags(origin),
      "make-mirror",
      `--prefix=${PREFIX}/`,
      ...(from === undefined ? [] : [`--rev=${from}`]),
      "--dest-insecure-transport=false",
      `--dest-cacert=${ca}`,
      `--dest-cert=${cert}`,
      `--dest-key=${key}`,
      destination.endpoint,
    ],
    { stdio: "ignore" },
  );
  const begun = performance.now();
  const ended = once(mirror, "exit");
  const store = new Store(destination.options);
  try {
    while (!(await isThere(store))) {
      if (mirror.exitCode !== null) throw new Error(`make-mirror ended with ${mirror.exitCode}`);
      await delay(LOOK_EVERY_MS);
    }
    return performance.now() - begun;
  } finally {
    store.close();
    mirror.kill("SIGKILL");
    await ended;
  }
}
