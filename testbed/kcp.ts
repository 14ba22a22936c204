import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { cacheServer, frontProxyServer, shardServer } from "./kcp-servers.ts";
import type { KcpCommands, KcpContext, KcpPorts } from "./kcp-servers.ts";
import { makePki, writeKubeconfigs } from "./kcp-pki.ts";
import { freePorts } from "./ports.ts";
import { stopAll } from "./process.ts";
import type { Server } from "./process.ts";
import { findProgram } from "./programs/find.ts";
import { prepareShardEtcd } from "./shard-etcd.ts";
import type { ShardEtcd, ShardEtcdOptions } from "./shard-etcd.ts";

/** One kcp shard: its API server and its etcd. */
export interface KcpShard {
  readonly name: string;
  /** `https://127.0.0.1:PORT`, without a `/clusters/...` path. */
  readonly url: string;
  /** Context `base` is `system:masters` on this shard, its server has no `/clusters/...` path. */
  readonly kubeconfig: string;
  readonly etcd: ShardEtcd;
  /** Prefix of all keys in etcd. */
  readonly etcdPrefix: string;
  readonly server: Server;
}

export interface Kcp {
  readonly workDir: string;
  readonly frontProxy: {
    /** `https://127.0.0.1:PORT`: the address that clients use. */
    readonly url: string;
    /** Contexts `base` (no path) and `root` (`/clusters/root`), as a member of `system:kcp:admin`. */
    readonly kubeconfig: string;
    readonly server: Server;
  };
  readonly cache: {
    /** Context `base`, as a member of `system:masters`. */
    readonly kubeconfig: string;
    readonly server: Server;
  };
  /** In the order asked for; the first is always `root`. */
  readonly shards: readonly KcpShard[];
  /** Every server with its etcds, in the order in which they must be stopped. */
  readonly servers: readonly Server[];
  /** The shard of that name. Throws an Error when there is none. */
  shard(name: string): KcpShard;
  stop(): Promise<void>;
}

export interface KcpOptions extends ShardEtcdOptions {
  /** Certificates, kubeconfigs, logs and data of the whole topology go here. */
  readonly dir: string;
  /** Names of shards beside `root`. Default one, `shard-1`. */
  readonly extraShards?: readonly string[];
  /** kcp's alpha feature gate LogicalClusterMigration, which rehome's best fence needs. Default true. */
  readonly migrationGate?: boolean;
  /** Shards encrypt Secrets at rest by one key. Default true; otherwise each by its own, of the same name. */
  readonly oneKey?: boolean;
  /** Told the name of each server that is being started. */
  readonly onProgress?: (server: string) => void;
}

/**
 * Starts kcp on free ports of 127.0.0.1: cache server, shards with one TLS etcd
 * each, and a front-proxy. Resolves when all are ready; when one fails, the
 * others are stopped and the error names its log.
 */
export async function startKcp(options: KcpOptions): Promise<Kcp> {
  const kcp = await prepare(options);
  // kcp's informers try again after ever longer pauses. Shards that start together keep each other waiting,
  // so one after the other is no slower, and the root shard, which the others ask, goes first.
  const etcds = kcp.shards.map(({ etcd }) => etcd.servers);
  const others = kcp.servers.filter((server) => !etcds.flat().includes(server)).toReversed();
  await startInOrder([...etcds, ...others.map((server) => [server])], options.onProgress);
  return kcp;
}

/** Makes certificates, kubeconfigs and command lines; starts nothing. */
async function prepare(options: KcpOptions): Promise<Kcp> {
  const workDir = options.dir;
  const names = ["root", ...(options.extraShards ?? ["shard-1"])];
  const commands = await findCommands();
  const ports = await choosePorts(names);
  await mkdir(workDir, { recursive: true });
  const pki = await makePki(join(workDir, "pki"), names, options.oneKey ?? true);
  const kubeconfigs = await writeKubeconfigs(workDir, pki, names, ports);
  const migrationGate = options.migrationGate ?? true;
  const context: KcpContext = { workDir, commands, ports, pki, kubeconfigs, migrationGate };
  const shards = await Promise.all(names.map((name) => prepareShard(context, name, options)));
  const cache = cacheServer(context);
  const proxy = frontProxyServer(context);
  const servers = [proxy, ...shards.map((shard) => shard.server).toReversed(), cache];
  servers.push(...shards.flatMap((shard) => shard.etcd.servers));
  return {
    workDir,
    frontProxy: { url: url(ports.frontProxy), kubeconfig: kubeconfigs.frontProxy, server: proxy },
    cache: { kubeconfig: kubeconfigs.cache, server: cache },
    shards,
    servers,
    shard: (name) => findShard(shards, name),
    stop: () => stopAll(servers),
  };
}

async function prepareShard(context: KcpContext, name: string, options: KcpOptions): Promise<KcpShard> {
  const etcd = await prepareShardEtcd(join(context.workDir, "etcd"), `etcd-${name}`, options);
  return {
    name,
    url: url(context.ports.shards.get(name) as number),
    kubeconfig: context.kubeconfigs.shards.get(name) as string,
    etcd,
    etcdPrefix: "/registry",
    server: shardServer(context, name, etcd),
  };
}

async function startInOrder(
  groups: readonly (readonly Server[])[],
  tell: KcpOptions["onProgress"],
): Promise<void> {
  try {
    for (const group of groups) {
      tell?.(group[0]!.spec.name);
      // Members of an etcd are ready only together.
      await Promise.all(group.map(async (server) => await server.start()));
    }
  } catch (error) {
    await stopAll(groups.flat().toReversed());
    throw error;
  }
}

function findShard(shards: readonly KcpShard[], name: string): KcpShard {
  const shard = shards.find((candidate) => candidate.name === name);
  if (shard === undefined)
    throw new Error(`no shard ${name}; there are ${shards.map((s) => s.name).join(", ")}`);
  return shard;
}

async function findCommands(): Promise<KcpCommands> {
  return {
    kcp: await findProgram("kcp"),
    frontProxy: await findProgram("kcp-front-proxy"),
    cacheServer: await findProgram("kcp-cache-server"),
  };
}

async function choosePorts(names: readonly string[]): Promise<KcpPorts> {
  const [frontProxy, cache, cacheEtcdClient, cacheEtcdPeer, ...rest] = (await freePorts(
    4 + names.length,
  )) as [number, number, number, number, ...number[]];
  const shards = new Map(names.map((name, index) => [name, rest[index] as number]));
  return { frontProxy, cache, cacheEtcdClient, cacheEtcdPeer, shards };
}

function url(port: number): string {
  return `https://127.0.0.1:${port}`;
}
