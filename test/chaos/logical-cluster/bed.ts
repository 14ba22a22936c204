import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client, Connection } from "@temporalio/client";
import { NativeConnection } from "@temporalio/worker";
import { parse, stringify } from "yaml";
import type { Store } from "../../../etcd/store.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { loadConfig } from "../../../sites/config.ts";
import { KcpSite } from "../../../sites/kcp.ts";
import type { Shard } from "../../../sites/kcp.ts";
import { startLogicalClusterTestbed } from "../../../testbed/logical-cluster.ts";
import type { LogicalClusterTestbed } from "../../../testbed/logical-cluster.ts";
import { Toxiproxy } from "../../../testbed/toxiproxy.ts";
import { createWorkload } from "../../../testbed/workload/workload.ts";
import type { Workload } from "../../../testbed/workload/workload.ts";
import { createWorkspace } from "../../../testbed/workspaces.ts";
import { ensureSearchAttributes } from "../../../workers/search-attributes.ts";
import { SHARDS } from "../../e2e/harness/bed.ts";
import type { ShardName } from "../../e2e/harness/bed.ts";
import { ofBystanders, untilSettled } from "../../e2e/harness/keys.ts";
import type { Place, Restartable } from "../fault.ts";
import { WorkerPair } from "../../e2e/harness/worker-pair.ts";
import { ShardStore } from "./stores.ts";

const BUNDLE = fileURLToPath(new URL("../../../workers/bundle.ts", import.meta.url));

/** So much that every phase takes long enough to be hit. */
const OBJECTS = 1_500;

/** Proxies between the worker and one shard: its etcd's members, its API server. */
export interface Ways {
  readonly store: readonly string[];
  readonly api: string;
}

/**
 * Two kcp shards with an etcd of three members each, a workspace on the first, and a worker that reaches all of them
 * through proxies. Clients and checks go past the proxies.
 */
export class ChaosBed implements Place {
  readonly testbed: LogicalClusterTestbed;
  readonly toxiproxy: Toxiproxy;
  readonly workers: WorkerPair;
  readonly client: Client;
  readonly workload: Workload;
  readonly stores: Readonly<Record<ShardName, ShardStore>>;
  /** Ids of workspaces that nobody uses, one on each shard. */
  readonly bystanders: readonly string[];
  /** Where the workspace is. */
  shard: ShardName = "root";
  readonly #dir: string;
  readonly #site: KcpSite;
  readonly #shards: Readonly<Record<ShardName, Shard>>;

  private constructor(parts: Parts) {
    this.testbed = parts.testbed;
    this.toxiproxy = parts.toxiproxy;
    this.workers = parts.workers;
    this.client = parts.client;
    this.workload = parts.workload;
    this.bystanders = parts.bystanders;
    this.#dir = parts.dir;
    this.#site = parts.site;
    const [root, second] = parts.shards as [Shard, Shard];
    this.#shards = { root, "shard-1": second };
    const storeOf = (name: ShardName) => new ShardStore(parts.testbed.kcp.shard(name));
    this.stores = { root: storeOf("root"), "shard-1": storeOf("shard-1") };
  }

  static async open(): Promise<ChaosBed> {
    const dir = await mkdtemp(join(tmpdir(), "rehome-chaos-"));
    const [testbed] = await Promise.all([
      startLogicalClusterTestbed({ dir, etcdMembers: 3 }),
      promisify(execFile)(process.execPath, [BUNDLE]),
    ]);
    const { kcp, temporal, configFile } = testbed;
    const native = await NativeConnection.connect({ address: temporal.address });
    await ensureSearchAttributes(native, temporal.namespace);
    await native.close();
    const toxiproxy = await Toxiproxy.start(dir);
    const workers = await WorkerPair.start(await writeProxiedConfig(testbed, toxiproxy));
    const { kubeconfig } = kcp.frontProxy;
    const workload = await createWorkload({ kubeconfig, name: "chaos", shard: "root", objects: OBJECTS });
    const bystanders = await Promise.all(
      SHARDS.map(async (shard) => await createWorkspace({ kubeconfig, name: `beside-${shard}`, shard })),
    );
    const connection = await Connection.connect({ address: temporal.address });
    const client = new Client({ connection, namespace: temporal.namespace });
    const site = new KcpSite(loadConfig(configFile).kcp!);
    const shards = await Promise.all(SHARDS.map(async (name) => await site.shard(name)));
    const bed = new ChaosBed({
      dir,
      testbed,
      toxiproxy,
      workers,
      client,
      workload,
      bystanders: bystanders.map(({ cluster }) => cluster),
      site,
      shards,
    });
    await untilSettled(bed);
    for (const cluster of bed.bystanders) {
      if ((await ofBystanders(bed, [cluster])).size === 0) throw new Error(`${cluster} has no keys`);
    }
    return bed;
  }

  async close(): Promise<void> {
    await this.workers.stop();
    await this.#site.close();
    await this.client.connection.close();
    await this.toxiproxy.server.stop();
    await this.testbed.stop();
    await rm(this.#dir, { recursive: true, force: true });
  }

  get temporal(): Restartable {
    return this.testbed.temporal.server;
  }

  get frontProxy(): ApiServer {
    return this.#site.frontProxy;
  }

  store(shard: ShardName): Store {
    return this.#shards[shard].store;
  }

  ways(shard: ShardName): Ways {
    const { etcd } = this.testbed.kcp.shard(shard);
    return { store: etcd.endpoints.map((_, index) => storeProxy(shard, index)), api: apiProxy(shard) };
  }
}

interface Parts extends Pick<
  ChaosBed,
  "testbed" | "toxiproxy" | "workers" | "client" | "workload" | "bystanders"
> {
  readonly dir: string;
  readonly site: KcpSite;
  readonly shards: readonly Shard[];
}

interface ConfigFile {
  readonly kcp: {
    readonly frontProxies: { server?: string }[];
    readonly shards: Record<string, { server?: string; etcd: { endpoints: string[] } }>;
  };
}

const storeProxy = (shard: string, index: number) => `etcd-${shard}-${index + 1}`;
const apiProxy = (shard: string) => `api-${shard}`;

/** As the test bed's own, with a proxy in place of every address. */
async function writeProxiedConfig(
  { configFile, kcp, dir }: LogicalClusterTestbed,
  toxiproxy: Toxiproxy,
): Promise<string> {
  const through = async (name: string, url: string) =>
    `https://${await toxiproxy.proxy(name, new URL(url).host)}`;
  const config = parse(await readFile(configFile, "utf8")) as ConfigFile;
  config.kcp.frontProxies[0]!.server = await through("front-proxy", kcp.frontProxy.url);
  for (const { name, url, etcd } of kcp.shards) {
    const shard = config.kcp.shards[name]!;
    shard.server = await through(apiProxy(name), url);
    shard.etcd.endpoints = await Promise.all(
      etcd.endpoints.map(async (endpoint, index) => await through(storeProxy(name, index), endpoint)),
    );
  }
  const file = join(dir, "rehome-proxied.yaml");
  await writeFile(file, stringify(config));
  return file;
}
