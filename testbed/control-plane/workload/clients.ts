import { monitorEventLoopDelay } from "node:perf_hooks";
import { Account } from "../../workload/account.ts";
import type { Window } from "../../workload/account.ts";
import { now } from "../../workload/caller.ts";
import { jsonFrom } from "../../workload/http.ts";
import type { HttpsClient } from "../../workload/https-client.ts";
import { configMaps } from "../../workload/resources.ts";
import { Watcher } from "../../workload/watcher.ts";
import { conclude } from "./conclusion.ts";
import type { ControlPlaneClientsResult } from "./conclusion.ts";
import { countingConnections, endpointOf, openHttp1 } from "./endpoint.ts";
import type { Endpoint } from "./endpoint.ts";
import { Http2Client } from "./http2-client.ts";
import { LeaseHolder } from "./lease-holder.ts";
import { groupLabel, Program } from "./program.ts";
import { CachingResolver, dnsResolve } from "./resolver.ts";
import type { Resolve } from "./resolver.ts";
import type { Protocol, TimedCall } from "./timeline.ts";
import { VpnProber } from "./vpn-prober.ts";
import type { PingedPod, VpnSide } from "./vpn-prober.ts";

export interface ControlPlaneClientsOptions {
  /** Its current context names the API server by its DNS name; the user may do everything. */
  readonly kubeconfig: string;
  /** Authoritative or caching servers as `127.0.0.1:5353`, or another way to resolve the name. */
  readonly dnsServers: readonly string[] | Resolve;
  /** Over HTTP/2, as Kubernetes's own clients do; retries, watches, lease and pings not counted. Default 100. */
  readonly requestsPerSecond?: number;
  /** Besides, over HTTP/1.1. Default a fifth of {@link requestsPerSecond}. */
  readonly http1RequestsPerSecond?: number;
  /** Default 50. */
  readonly watches?: number;
  /** Made by the clients; nothing else is in it. Default `clients`. */
  readonly namespace?: string;
  /** Pinged through the pod proxy of the sides given by {@link ControlPlaneClients.setVpnSides}. */
  readonly pingedPod?: PingedPod;
}

/** What can be told at any time. */
export interface ControlPlanePulse {
  readonly requests: number;
  readonly failed: number;
  /** Requests concluded in the last second. */
  readonly perSecond: number;
  readonly longestGapMs: number;
}

export interface Watch {
  readonly protocol: Protocol;
  readonly watcher: Watcher;
  /** Whose objects it watches. */
  readonly programs: readonly Program[];
}

const protocols: readonly Protocol[] = ["http1", "http2"];
const programsPerProtocol = 4;
/** Every so many watches one sees the whole namespace instead of one program's objects. */
const wholeNamespaceEvery = 25;
/** A reflector's: k8s.io/client-go/tools/cache/reflector.go. */
const watchTimeoutSeconds = () => Math.round(300 * (1 + Math.random()));
/** Its backoff: from 0.8 s on, doubled, 30 s at most, with jitter; none after a stream that began. */
const watchResumeAfterMs = (failures: number) =>
  failures === 0 ? 0 : Math.min(30_000, 800 * 2 ** (failures - 1)) * (1 + Math.random());

/**
 * Programs that use a control plane through its DNS name and never stop: they
 * read and write ConfigMaps over HTTP/1.1 and HTTP/2, watch them, hold a lease
 * and ping a pod through the VPN, and keep account of it.
 */
export class ControlPlaneClients {
  readonly accounts: Readonly<Record<Protocol, Account>> = { http1: new Account(), http2: new Account() };
  /** Connections opened by each protocol's clients so far. */
  readonly connections: Record<Protocol, number> = { http1: 0, http2: 0 };
  readonly namespace: string;
  readonly resolver: CachingResolver;
  readonly programs: Program[] = [];
  readonly watches: Watch[] = [];
  readonly lease: LeaseHolder;
  readonly vpn: VpnProber | undefined;
  /** For questions that are not part of the load. */
  readonly observer: HttpsClient;
  readonly #clients: Record<Protocol, (HttpsClient | Http2Client)[]> = { http1: [], http2: [] };
  readonly #leaseClient: Http2Client;
  readonly #delays = monitorEventLoopDelay({ resolution: 5 });
  #startedAt = 0;
  #endedAt: number | undefined;

  private constructor(endpoint: Endpoint, resolver: CachingResolver, options: ControlPlaneClientsOptions) {
    const { requestsPerSecond = 100, watches = 50, namespace = "clients", pingedPod } = options;
    const { http1RequestsPerSecond = requestsPerSecond / 5 } = options;
    this.resolver = resolver;
    this.namespace = namespace;
    this.observer = openHttp1(endpoint);
    this.#leaseClient = new Http2Client(endpoint);
    this.lease = new LeaseHolder(this.#leaseClient, "clients", "clients-1");
    this.vpn = pingedPod === undefined ? undefined : new VpnProber(endpoint, pingedPod);
    const rates: Readonly<Record<Protocol, number>> = {
      http1: http1RequestsPerSecond,
      http2: requestsPerSecond,
    };
    for (let index = 0; index < programsPerProtocol; index += 1) {
      // In turns, so that the next program, whose objects each one reads, speaks the other protocol.
      for (const protocol of protocols) this.#addProgram(endpoint, protocol, rates[protocol]);
    }
    for (let index = 0; index < watches; index += 1) this.#addWatch(index);
  }

  /** Resolves when all clients are at work. */
  static async start(options: ControlPlaneClientsOptions): Promise<ControlPlaneClients> {
    const { dnsServers } = options;
    const resolver = new CachingResolver(
      typeof dnsServers === "function" ? dnsServers : dnsResolve(dnsServers),
    );
    const endpoint = await endpointOf(options.kubeconfig, resolver.lookup);
    const clients = new ControlPlaneClients(endpoint, resolver, options);
    await clients.#begin();
    return clients;
  }

  /** From now on the pod must be reachable through these sides, and only these. */
  async setVpnSides(sides: readonly VpnSide[]): Promise<void> {
    if (this.vpn === undefined) throw new Error("there is no pod to ping: give pingedPod");
    await this.vpn.setSides(sides);
  }

  /** Ends the requests, the lease and the pings; the watches stay, to see what they may have been late for. */
  async stop(): Promise<void> {
    await this.vpn?.setSides([]);
    await Promise.all(this.programs.map(async (program) => await program.stop()));
    this.#endedAt ??= now();
    this.#delays.disable();
    await this.lease.stop();
  }

  /**
   * {@link ControlPlaneClients.stop}, then judges all that was seen, and ends the watches.
   * @param catchUpMs for how long watches that are behind are waited for before what they lack counts as missed
   */
  async conclude(catchUpMs = 60_000): Promise<ControlPlaneClientsResult> {
    await this.stop();
    try {
      return await conclude(this, catchUpMs);
    } finally {
      await this.close();
    }
  }

  /** Ends everything without a judgement. */
  async close(): Promise<void> {
    await this.stop();
    await Promise.all(this.watches.map(async ({ watcher }) => await watcher.stop()));
    for (const client of Object.values(this.#clients).flat()) client.close();
    this.#leaseClient.close();
    this.observer.close();
  }

  /** From when all were at work until the last, or until now. */
  get window(): Window {
    return { from: this.#startedAt, to: this.#endedAt ?? now() };
  }

  /** Of all programs since all were at work. */
  get calls(): TimedCall[] {
    return protocols.flatMap((protocol) =>
      this.accounts[protocol].calls
        .filter(({ startedAt }) => startedAt >= this.#startedAt)
        .map((call) => ({ protocol, call })),
    );
  }

  /** How often a server told an HTTP/2 client to connect anew. */
  get goaways(): number {
    const clients = this.#clients.http2.filter((client) => client instanceof Http2Client);
    return clients.reduce((sum, client) => sum + client.goaways, 0);
  }

  /** The longest time for which this process did nothing at all: gaps up to that are its own. */
  get longestStallMs(): number {
    return this.#delays.max / 1e6;
  }

  pulse(): ControlPlanePulse {
    const { calls } = this;
    const at = now();
    const gaps = protocols.flatMap((protocol) => this.accounts[protocol].gaps(this.window));
    return {
      requests: calls.length,
      failed: calls.filter(({ call }) => call.outcome === "failed").length,
      perSecond: calls.filter(({ call }) => call.endedAt > at - 1000).length,
      longestGapMs: Math.round(Math.max(0, ...gaps.map(({ ms }) => ms))),
    };
  }

  async #begin(): Promise<void> {
    const metadata = { name: this.namespace };
    const body = { apiVersion: "v1", kind: "Namespace", metadata };
    await jsonFrom(this.observer, { method: "POST", path: "/api/v1/namespaces", body });
    await Promise.all(this.watches.map(async ({ watcher }) => await watcher.start()));
    await this.lease.acquire();
    await Promise.all(this.programs.map(async (program) => await program.prepare()));
    for (const [index, program] of this.programs.entries()) {
      program.start(this.programs[(index + 1) % this.programs.length] as Program);
    }
    // The objects made at first came in a burst, which would make any pause after it look long.
    this.#startedAt = now();
    this.#delays.enable();
  }

  #addProgram(endpoint: Endpoint, protocol: Protocol, protocolPerSecond: number): void {
    const counting = countingConnections(endpoint, () => (this.connections[protocol] += 1));
    const server = protocol === "http1" ? openHttp1(counting) : new Http2Client(counting);
    this.#clients[protocol].push(server);
    const account = this.accounts[protocol];
    const { namespace } = this;
    const group = `program-${this.programs.length}`;
    const requestsPerSecond = protocolPerSecond / programsPerProtocol;
    this.programs.push(new Program({ group, namespace, server, account, requestsPerSecond }));
  }

  #addWatch(index: number): void {
    const protocol = protocols[index % protocols.length] as Protocol;
    const clients = this.#clients[protocol];
    const server = clients[Math.floor(index / protocols.length) % clients.length] as
      | HttpsClient
      | Http2Client;
    const isWhole = index % wholeNamespaceEvery === 0;
    const program = this.programs[Math.floor(index / protocols.length) % this.programs.length] as Program;
    const watcher = new Watcher(server, {
      cluster: undefined,
      resource: configMaps,
      namespace: this.namespace,
      ...(isWhole ? {} : { selector: `${groupLabel}=${program.group}` }),
      timeoutSeconds: watchTimeoutSeconds,
      resumeAfterMs: watchResumeAfterMs,
      excuse: "relist",
    });
    this.watches.push({ protocol, watcher, programs: isWhole ? this.programs : [program] });
  }
}
