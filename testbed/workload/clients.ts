import { monitorEventLoopDelay } from "node:perf_hooks";
import { Account } from "./account.ts";
import type { Window } from "./account.ts";
import { now } from "./caller.ts";
import { FrontProxy } from "./front-proxy.ts";
import { configMaps, gadgets, widgets } from "./resources.ts";
import type { Resource } from "./resources.ts";
import { Traffic } from "./traffic.ts";
import type { Shares } from "./traffic.ts";

export interface ClientsOptions {
  /** Kubeconfig of a front-proxy whose context `base` has no `/clusters/...` path. */
  readonly kubeconfig: string;
  readonly workspace: { readonly path: string; readonly cluster: string };
  /** All kinds together, retries not counted. */
  readonly requestsPerSecond?: number;
  /** What is asked for, and its share of the requests, 1 together. */
  readonly loads?: readonly Load[];
  /** Of the verbs in these. */
  readonly shares?: Shares;
  /** In which they work, and nobody else: made here, for each new set of clients another. Default `clients`. */
  readonly namespace?: string;
}

type Load = readonly [Resource, number];

const defaultRequestsPerSecond = 100;
/** Custom resources are served by other code than ConfigMaps, so both are asked for about as often. */
const usualLoads: readonly Load[] = [
  [configMaps, 0.46],
  [widgets, 0.27],
  [gadgets, 0.27],
];
const usualShares: Shares = { get: 0.3, list: 0.12, create: 0.14, update: 0.3, delete: 0.14 };
const defaultNamespace = "clients";

/** What can be told at any time. */
export interface Pulse {
  readonly requests: number;
  readonly failed: number;
  /** Requests concluded in the last second. */
  readonly perSecond: number;
  /** Of ConfigMaps, since the clients began. */
  readonly longestGapMs: number;
}

/**
 * Clients of a workspace that never stop: they write, read, list, create,
 * delete and watch ConfigMaps, custom resources of the workspace's own and of
 * a bound API, by path and by id, and keep account of it.
 */
export class Clients {
  readonly account = new Account();
  readonly traffics: readonly Traffic[];
  #startedAt = 0;
  readonly #frontProxy: FrontProxy;
  readonly #delays = monitorEventLoopDelay({ resolution: 5 });
  #endedAt: number | undefined;

  private constructor(frontProxy: FrontProxy, options: ClientsOptions) {
    const { workspace, shares = usualShares, loads = usualLoads } = options;
    const { requestsPerSecond = defaultRequestsPerSecond, namespace = defaultNamespace } = options;
    this.#frontProxy = frontProxy;
    const clusters = [workspace.path, workspace.cluster];
    const { account } = this;
    this.traffics = loads.map(([resource, share]) => {
      const rate = requestsPerSecond * share;
      const common = { frontProxy, account, namespace, clusters, shares };
      return new Traffic({ ...common, resource, requestsPerSecond: rate });
    });
  }

  /** Resolves when all clients are at work. */
  static async start(options: ClientsOptions): Promise<Clients> {
    const frontProxy = await FrontProxy.open(options.kubeconfig);
    await frontProxy.json({
      method: "POST",
      path: `/clusters/${options.workspace.cluster}/api/v1/namespaces`,
      body: {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: options.namespace ?? defaultNamespace },
      },
    });
    const clients = new Clients(frontProxy, options);
    await Promise.all(clients.traffics.map(async (traffic) => await traffic.start()));
    // The objects that the clients made at first came in a burst, which would make any pause after it look long.
    clients.#startedAt = now();
    clients.#delays.enable();
    return clients;
  }

  /** Ends the requests; the watches stay, to see what they may have been late for. */
  async stopRequests(): Promise<void> {
    await Promise.all(this.traffics.map(async (traffic) => await traffic.stopRequests()));
    this.#endedAt = now();
    this.#delays.disable();
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    if (this.#endedAt === undefined) await this.stopRequests();
    await Promise.all(this.traffics.map(async (traffic) => await traffic.stopWatches()));
    this.#frontProxy.close();
  }

  /** From when all were at work until the last, or until now. */
  get window(): Window {
    return { from: this.#startedAt, to: this.#endedAt ?? now() };
  }

  get frontProxy(): FrontProxy {
    return this.#frontProxy;
  }

  /** The longest time for which this process did nothing at all: gaps up to that are its own. */
  get longestStallMs(): number {
    return this.#delays.max / 1e6;
  }

  pulse(): Pulse {
    const { calls } = this.account;
    const at = now();
    const gap = this.account.gaps(this.window).find(({ resource }) => resource === configMaps.plural);
    return {
      requests: calls.length,
      failed: calls.filter(({ outcome }) => outcome === "failed").length,
      perSecond: calls.filter(({ endedAt }) => endedAt > at - 1000).length,
      longestGapMs: gap?.ms ?? 0,
    };
  }
}
