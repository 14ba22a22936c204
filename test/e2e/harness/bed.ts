import { Client, Connection } from "@temporalio/client";
import { inject } from "vitest";
import type { Store } from "../../../etcd/store.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { loadConfig } from "../../../sites/config.ts";
import { KcpSite } from "../../../sites/kcp.ts";
import type { Shard } from "../../../sites/kcp.ts";
import type { Server } from "../../../testbed/process.ts";
import type { ProvidedTestbed } from "../../setup/kcp.ts";
import { makeWorker } from "./worker.ts";

/** The two shards of the test bed; the first hosts `root` and, by default, the parents of all workspaces. */
export const SHARDS = ["root", "shard-1"] as const;
export type ShardName = (typeof SHARDS)[number];

export function other(shard: ShardName): ShardName {
  return shard === "root" ? "shard-1" : "root";
}

/** The running test bed as tests see it: kcp, its stores, Temporal, and a worker in a process of its own. */
export class Bed {
  readonly testbed: ProvidedTestbed;
  readonly client: Client;
  readonly site: KcpSite;
  readonly shards: Readonly<Record<ShardName, Shard>>;
  readonly worker: Server;

  private constructor(parts: Pick<Bed, "testbed" | "client" | "site" | "shards" | "worker">) {
    this.testbed = parts.testbed;
    this.client = parts.client;
    this.site = parts.site;
    this.shards = parts.shards;
    this.worker = parts.worker;
  }

  /** Connects to everything and starts a worker. */
  static async open(testbed: ProvidedTestbed = inject("kcp")): Promise<Bed> {
    const { address, namespace } = testbed.temporal;
    const { kcp } = loadConfig(testbed.rehomeConfig);
    if (kcp === undefined) throw new Error(`${testbed.rehomeConfig} has no section kcp`);
    const site = new KcpSite(kcp);
    const [root, second] = await Promise.all(SHARDS.map(async (name) => await site.shard(name)));
    const worker = await makeWorker(testbed.rehomeConfig);
    await worker.start();
    const connection = await Connection.connect({ address });
    return new Bed({
      testbed,
      site,
      worker,
      client: new Client({ connection, namespace }),
      shards: { root: root!, "shard-1": second! },
    });
  }

  async close(): Promise<void> {
    await this.worker.stop();
    await this.site.close();
    await this.client.connection.close();
  }

  get frontProxy(): ApiServer {
    return this.site.frontProxy;
  }

  get kubeconfig(): string {
    return this.testbed.frontProxyKubeconfig;
  }

  store(shard: ShardName): Store {
    return this.shards[shard].store;
  }

  /** Kills the worker, and starts it again when that is done. */
  async withoutWorker<T>(whileDead: () => Promise<T>): Promise<T> {
    await this.worker.kill();
    try {
      return await whileDead();
    } finally {
      await this.worker.start();
    }
  }

  /** Freezes a server of the test bed until disposed: it keeps its connections and answers nothing. */
  freeze(name: string): Disposable {
    const found = this.testbed.processes.find((process) => process.name === name);
    if (found === undefined) throw new Error(`the test bed has no server "${name}"`);
    process.kill(found.pid, "SIGSTOP");
    return { [Symbol.dispose]: () => void process.kill(found.pid, "SIGCONT") };
  }
}
