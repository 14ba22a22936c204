import { Store } from "../etcd/store.ts";
import { ApiServer } from "../kubernetes/api-server.ts";
import type { KubeconfigRef } from "../kubernetes/api-server.ts";
import type { KcpConfig, ShardConfig } from "./config.ts";
import { UnknownSiteError } from "./unknown-site.ts";

export interface Shard {
  readonly name: string;
  /** Every replica of the shard's API server; one where the configuration names no more. */
  readonly replicas: readonly ApiServer[];
  readonly api: ApiServer;
  readonly store: Store;
}

/** A kcp installation: its front-proxies and shards, each client made when it is first asked for, and kept. */
export class KcpSite {
  readonly frontProxies: readonly ApiServer[];
  readonly fenceWorkspace: string;
  /** kcp's cache server, where the configuration names it. */
  readonly cache: ApiServer | undefined;
  readonly shardNames: readonly string[];
  readonly #config: KcpConfig;
  readonly #shards = new Map<string, Promise<Shard>>();

  constructor(config: KcpConfig) {
    this.#config = config;
    this.fenceWorkspace = config.fenceWorkspace;
    this.cache = config.cacheServer && new ApiServer("kcp's cache server", config.cacheServer);
    this.shardNames = Object.keys(config.shards).toSorted();
    this.frontProxies = config.frontProxies.map(
      (reference, index) => new ApiServer(`front-proxy ${index + 1}`, reference),
    );
  }

  /** The front-proxy that rehome's own requests go through. */
  get frontProxy(): ApiServer {
    return this.frontProxies[0]!;
  }

  /** @throws UnknownSiteError, or Error when neither the configuration nor kcp tells the shard's address. */
  async shard(name: string): Promise<Shard> {
    const config = Object.hasOwn(this.#config.shards, name) ? this.#config.shards[name] : undefined;
    if (!config) throw new UnknownSiteError("shard", name, this.shardNames);
    let shard = this.#shards.get(name);
    if (!shard) {
      shard = this.#open(name, config);
      this.#shards.set(name, shard);
      // A failure must not be remembered: the Shard object may be there at the next try.
      shard.catch(() => this.#shards.delete(name));
    }
    return await shard;
  }

  async close(): Promise<void> {
    const shards = await Promise.allSettled(this.#shards.values());
    for (const shard of shards) if (shard.status === "fulfilled") shard.value.store.close();
    this.#shards.clear();
  }

  async #open(name: string, config: ShardConfig): Promise<Shard> {
    const reference = await this.#reference(name, config);
    const servers = config.replicas ?? [reference.server];
    const replicas = servers.map((server) => new ApiServer(`shard ${name}`, { ...reference, server }));
    return {
      name,
      replicas,
      api: replicas[0]!,
      store: new Store({ name: `etcd of ${name}`, ...config.etcd }),
    };
  }

  async #reference(name: string, config: ShardConfig): Promise<KubeconfigRef> {
    if (config.kubeconfig !== undefined) {
      return { kubeconfig: config.kubeconfig, context: config.context, server: config.server };
    }
    const credentials = this.#config.shardCredentials;
    if (!credentials) {
      throw new Error(
        `kcp.shards.${name}.kubeconfig is missing: set it, or kcp.shardCredentials for all shards`,
      );
    }
    const server = config.server ?? (await this.#baseUrl(name));
    return { ...credentials, server };
  }

  /** The address that the shard has registered in kcp's root workspace. */
  async #baseUrl(name: string): Promise<string> {
    const path = `/clusters/root/apis/core.kcp.io/v1alpha1/shards/${name}`;
    const shard = await this.frontProxy.find<{ spec?: { baseURL?: string } }>({ path });
    if (!shard?.spec?.baseURL) throw new Error(`kcp has no Shard "${name}" with a baseURL`);
    return shard.spec.baseURL;
  }
}
