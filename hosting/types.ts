/**
 * A hosted control plane as a move sees it: etcd clusters, API servers, controllers and a VPN in one namespace of a
 * seed. Each way of hosting (plain StatefulSets, Gardener) answers these questions and does these steps in its own
 * objects. Every step reads, compares, acts and reads again, so it may be repeated at any time; each waits until what
 * it asked for is in effect, and stops waiting when `signal` fires.
 */

import type { RoundTripReading } from "../etcd/membership/round-trip.ts";

export type Side = "source" | "destination";

/** An etcd member as others reach it. */
export interface MemberAddress {
  /** Name of its pod, the same on both sides: `etcd-main-0`. */
  readonly pod: string;
  /** `https://host:port` for other members, reachable from both seeds; unique over all members of both sides. */
  readonly peerUrl: string;
  /** `https://host:port` for clients, reachable from the worker. */
  readonly clientUrl: string;
}

/** PEM texts for clients of an etcd. Never leaves the worker. */
export interface EtcdCredentials {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** The name that the members' server certificates carry, whatever address they are reached at. */
  readonly serverName: string;
}

/** What a new member is started with (etcd's ETCD_* settings). */
export interface Bootstrap {
  readonly name: string;
  readonly peerUrl: string;
  /** `name=peerUrl` of every member, the new one included, each member with exactly the URLs that etcd lists. */
  readonly initialCluster: readonly string[];
}

/** What is found before a move, without changing anything. */
export interface Inspection {
  readonly etcds: readonly EtcdInspection[];
  readonly apiServers: number;
  /** Controllers that must never run twice, in the order in which they are handed over. */
  readonly controllers: readonly string[];
  readonly vpn: boolean;
  /** Reasons that forbid the move, each with the object, what was found and the fix; empty when there are none. */
  readonly refusals: readonly string[];
}

export interface EtcdInspection {
  readonly name: string;
  readonly members: number;
  readonly heartbeatMs: number;
  readonly electionMs: number;
}

/** How the API servers of one side are reached directly, whatever the DNS record says. */
export interface ApiServerAddress {
  readonly url: string;
  /** Values that the DNS record of the control plane must have for this side. */
  readonly values: readonly string[];
}

export interface CarriedOver {
  readonly secrets: number;
  readonly objects: number;
  /** SHA-256 over names and contents of all Secrets, equal on both sides. */
  readonly digest: string;
}

export interface DnsRecordState {
  readonly values: readonly string[];
  readonly ttlSeconds: number;
}

/** The DNS record of a control plane, as its hosting changes it. What servers tell of it is asked elsewhere. */
export interface HostedDns {
  /**
   * Whether the record can be changed, which is found out without changing it.
   * @param values that it must have.
   * @returns its TTL, and reasons that forbid a move.
   */
  inspect(
    values: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly ttlSeconds: number; readonly refusals: readonly string[] }>;
  /**
   * Overwrites values and TTL in one step, which a change of the TTL alone is too. Nothing is written where the record
   * is so already. @throws RecordTakenError when it holds neither `from` nor what is wanted.
   */
  replace(from: readonly string[], to: DnsRecordState, signal: AbortSignal): Promise<void>;
  /** Makes the destination answer for the record, where a seed does; it resolves all the time. */
  handOver(signal: AbortSignal): Promise<void>;
}

/** A control plane in two seeds, as one attempt of a move works on it (claim.ts). */
export interface Hosting {
  readonly dns: HostedDns;
  /**
   * Whether something beside each member adds it and promotes it by itself. A member that is to stay a learner must
   * not run then, and one that is removed must be stopped, or it comes back.
   */
  readonly promotesByItself: boolean;

  inspect(signal: AbortSignal): Promise<Inspection>;

  /** Whether the seed of a side answers now. */
  isReachable(side: Side, signal: AbortSignal): Promise<boolean>;

  /** Claims the control plane for the move. @throws ClaimedError when another move holds it. */
  claim(signal: AbortSignal): Promise<void>;
  /**
   * Raises the claim's epoch to this attempt's, unless it is so: asked at the beginning, and right before each change.
   * What the hosting itself changes asks by itself.
   * @throws ClaimedError when the move does not hold the claim, SupersededError when a newer attempt does.
   */
  requireClaim(signal: AbortSignal): Promise<void>;
  release(signal: AbortSignal): Promise<void>;

  /** The members of one etcd as the worker reaches them now; none where it cannot before they are exposed. */
  clientUrls(side: Side, etcd: string, signal: AbortSignal): Promise<readonly string[]>;
  credentials(etcd: string, signal: AbortSignal): Promise<EtcdCredentials>;
  /** Gives each member of one side an address that the other seed and the worker can reach. */
  exposePeers(side: Side, etcd: string, signal: AbortSignal): Promise<readonly MemberAddress[]>;
  /**
   * Has the source's members keep these addresses over a restart, where something else writes their settings, and
   * waits until all run with them. Changes nothing in etcd.
   */
  advertisePeers(etcd: string, members: readonly MemberAddress[], signal: AbortSignal): Promise<void>;
  /** Whether the source's members may have been given other peer URLs than {@link innerPeerUrls} by now. */
  mayHaveOuterPeers(etcd: string, signal: AbortSignal): Promise<boolean>;
  /** The peer URLs that the source's members had before they were exposed, by pod. */
  innerPeerUrls(etcd: string, signal: AbortSignal): Promise<Readonly<Record<string, string>>>;
  /** Takes the addresses away again; the members must use the inner ones by then. */
  hidePeers(etcd: string, signal: AbortSignal): Promise<void>;
  /** Starts the destination's member number `ordinal` (earlier ones run already) and waits until it runs. */
  startMember(etcd: string, ordinal: number, bootstrap: Bootstrap, signal: AbortSignal): Promise<void>;
  /** Waits until a member is ready to serve clients: of the destination's voters only. */
  awaitMemberReady(side: Side, etcd: string, ordinal: number, signal: AbortSignal): Promise<void>;
  /** Stops the members from `keep` upward and deletes their data; returns when the pods are gone. */
  stopMembers(side: Side, etcd: string, keep: number, signal: AbortSignal): Promise<void>;
  /** What a member has measured of its peers on the other side; undefined where it cannot be asked. */
  peerRoundTrips(
    etcd: string,
    ordinal: number,
    peers: readonly string[],
    signal: AbortSignal,
  ): Promise<RoundTripReading | undefined>;

  /** Copies everything the control plane is made of to the destination, workloads with no replicas. */
  carryOver(signal: AbortSignal): Promise<CarriedOver>;
  /** Deletes what {@link carryOver} made, and only when it is of this move; returns when it is gone. */
  clearDestination(signal: AbortSignal): Promise<void>;
  /** Deletes the source's objects without touching what they stand for elsewhere; returns when they are gone. */
  clearSource(signal: AbortSignal): Promise<void>;

  startApiServers(side: Side, signal: AbortSignal): Promise<ApiServerAddress>;
  apiServerAddress(side: Side, signal: AbortSignal): Promise<ApiServerAddress>;
  /** Ends the API servers gracefully and waits until their pods are gone. */
  stopApiServers(side: Side, signal: AbortSignal): Promise<void>;

  /** Starts the VPN server of a side unless it runs; returns `host:port` as clients in the data plane dial it. */
  startVpnServer(side: Side, signal: AbortSignal): Promise<string>;
  stopVpnServer(side: Side, signal: AbortSignal): Promise<void>;

  /** Stops every dangerous controller of a side and proves it: pods gone, leases not renewed any more. */
  fenceControllers(side: Side, signal: AbortSignal): Promise<readonly StoppedController[]>;
  /** Starts them on a side; the caller has proven that the other side's are stopped. */
  startControllers(side: Side, signal: AbortSignal): Promise<void>;
  /**
   * Starts the source's again when none of the destination's have been started, which is not asked for what it knows, nor
   * waited for.
   */
  resumeControllers(signal: AbortSignal): Promise<void>;

  /** Hands backups over, where the hosting has any. */
  finishBackups(signal: AbortSignal): Promise<void>;
  /** Makes the destination responsible for the control plane, where somebody above the seeds says who is. */
  adopt(signal: AbortSignal): Promise<void>;
}

export interface StoppedController {
  readonly name: string;
  /** How long its lease has been seen unchanged, in ms; undefined when it keeps none. */
  readonly leaseFrozenMs?: number;
}

/** Somebody else has changed the DNS record since the move looked: it is not overwritten. */
export class RecordTakenError extends Error {
  override readonly name = "RecordTakenError";
  /** Where it was seen: a DNS server, or a DNSRecord in a seed. */
  readonly where: string;
  /** What it holds instead; empty where there is none. */
  readonly found: readonly string[];
  constructor(where: string, expected: readonly string[], found: readonly string[]) {
    super(`${where} should be ${expected.join(", ")}, but holds ${found.join(", ") || "nothing"}`);
    this.where = where;
    this.found = found;
  }
}

/** Another move holds the control plane. */
export class ClaimedError extends Error {
  override readonly name = "ClaimedError";
  readonly holder: string;
  constructor(what: string, holder: string) {
    super(`${what} is claimed by the move ${holder}`);
    this.holder = holder;
  }
}
