import type { GapOf } from "../../workload/account.ts";
import { jsonFrom } from "../../workload/http.ts";
import type { LostWrite, Write } from "../../workload/ledger.ts";
import { configMaps, contentOf, objectPath } from "../../workload/resources.ts";
import type { StoredObject } from "../../workload/resources.ts";
import { keyOf } from "../../workload/watcher.ts";
import type { ControlPlaneClients, Watch } from "./clients.ts";
import { excuseOf } from "./excuses.ts";
import type { Excuse } from "./excuses.ts";
import type { LeaseResult } from "./lease-holder.ts";
import type { Program } from "./program.ts";
import type { AddressChange } from "./resolver.ts";
import { describeCall, slowestSecond, timelineOf } from "./timeline.ts";
import type { Protocol, Second, SlowestSecond } from "./timeline.ts";
import type { VpnSideResult } from "./vpn-prober.ts";

/** The clients' own account of their control plane. JSON-serialisable. Times are ms since the epoch. */
export interface ControlPlaneClientsResult {
  readonly from: number;
  readonly to: number;
  /** As a client-go program counts them: retries are part of their request. Without watches, lease and pings. */
  readonly requests: number;
  readonly acknowledgedWrites: number;
  /** Failed after client-go's own retries. */
  readonly failedRequests: number;
  /** Of these, those that have an excuse. */
  readonly excused: Readonly<Record<Excuse, number>>;
  /** Examples of failed requests, those without an excuse first. */
  readonly failures: readonly string[];
  readonly protocols: Readonly<Record<Protocol, ProtocolResult>>;
  /** Objects that do not hold what was last acknowledged. */
  readonly lostWrites: number;
  /** Of these: objects that are there although their deletion was acknowledged. */
  readonly resurrected: number;
  readonly lostExamples: readonly LostWrite[];
  /** Reads that showed less than was acknowledged before they were sent. */
  readonly staleReads: number;
  readonly staleExamples: readonly string[];
  /** Objects whose resourceVersion went backwards, for a reader, a writer or a watch. */
  readonly resourceVersionRegressions: number;
  readonly watches: number;
  readonly events: number;
  readonly missedEvents: number;
  readonly missedExamples: readonly string[];
  /** Events that came twice or after a later one. */
  readonly duplicateEvents: number;
  /** How often a stream ended and was resumed. */
  readonly watchBreaks: number;
  /** How often the server would not resume a watch (410), so that it had to list again. */
  readonly relists: number;
  /** Writes that a watch learnt of only by a later one of the same object, in such a list. */
  readonly skippedInRelists: number;
  /** The longest time without an answered request of one verb and protocol, beyond the usual interval. */
  readonly longestGapMs: number;
  /** The longest of each verb and protocol, the longest first. */
  readonly gaps: readonly (GapOf & { readonly protocol: Protocol })[];
  /** For how long this process itself stood still at most. */
  readonly longestStallMs: number;
  readonly leaseLost: boolean;
  readonly leaseLongestMs: number;
  readonly lease: LeaseResult;
  /** The longest of any side; absent when nothing was pinged. */
  readonly vpnLongestGapMs?: number;
  readonly vpn: readonly VpnSideResult[];
  readonly addressChanges: readonly AddressChange[];
  readonly slowestSecond?: SlowestSecond;
  readonly timeline: readonly Second[];
  /** Beats of the load left out because every object was waiting for an answer. */
  readonly skippedBeats: number;
}

export interface ProtocolResult {
  readonly requests: number;
  readonly failedRequests: number;
  /** Requests that took more than one attempt. */
  readonly retriedRequests: number;
  /** Attempts that were not answered with a success, by status; 0: the connection broke. */
  readonly refusedAttempts: Readonly<Record<number, number>>;
  readonly longestGapMs: number;
  /** Connections opened, watches included. */
  readonly connections: number;
}

const examples = 20;

/**
 * Compares what the clients have seen with what is served now. Their requests must have ended.
 * @param catchUpMs for how long watches that are behind are waited for
 */
export async function conclude(
  clients: ControlPlaneClients,
  catchUpMs: number,
): Promise<ControlPlaneClientsResult> {
  const lost = await findLost(clients);
  const watches = await concludeWatches(clients.watches, catchUpMs);
  const requests = concludeRequests(clients);
  const { programs, window, vpn } = clients;
  const lease = clients.lease.result();
  const sides = (await vpn?.results()) ?? [];
  const stale = programs.flatMap(({ findings }) => findings.stale);
  const slowest = slowestSecond(clients.calls, window);
  const { regressions, ...watchResult } = watches;
  return {
    ...window,
    ...requests,
    acknowledgedWrites: sum(programs, ({ ledger }) => ledger.acknowledgedCount),
    lostWrites: lost.length,
    resurrected: lost.filter(({ expected, found }) => expected.startsWith("nothing") && found !== "nothing")
      .length,
    lostExamples: lost.slice(0, examples),
    staleReads: stale.length,
    staleExamples: stale.slice(0, examples),
    resourceVersionRegressions: regressions + sum(programs, ({ findings }) => findings.regressions.length),
    ...watchResult,
    longestStallMs: Math.round(clients.longestStallMs),
    leaseLost: lease.lost,
    leaseLongestMs: lease.longestMs,
    lease,
    ...(sides.length === 0
      ? {}
      : { vpnLongestGapMs: Math.max(...sides.map(({ longestGapMs }) => longestGapMs)) }),
    vpn: sides,
    addressChanges: clients.resolver.changes,
    ...(slowest === undefined ? {} : { slowestSecond: slowest }),
    timeline: timelineOf(clients.calls, window),
    skippedBeats: sum(programs, ({ skipped }) => skipped),
  };
}

function concludeRequests(clients: ControlPlaneClients) {
  const { calls, window, accounts } = clients;
  const failed = calls.filter(({ call }) => call.outcome === "failed");
  const gaps = (["http1", "http2"] as const)
    .flatMap((protocol) => accounts[protocol].gaps(window).map((gap) => ({ ...gap, protocol })))
    .map((gap) => ({ ...gap, ms: Math.round(gap.ms), usualMs: Math.round(gap.usualMs) }))
    .sort((one, other) => other.ms - one.ms);
  const of = (wanted: Protocol): ProtocolResult => {
    const own = calls.filter(({ protocol }) => protocol === wanted).map(({ call }) => call);
    return {
      requests: own.length,
      failedRequests: own.filter(({ outcome }) => outcome === "failed").length,
      retriedRequests: own.filter(({ attempts }) => attempts > 1).length,
      refusedAttempts: accounts[wanted].refusals(),
      longestGapMs: gaps.find(({ protocol }) => protocol === wanted)?.ms ?? 0,
      connections: clients.connections[wanted],
    };
  };
  const excused = (excuse: Excuse) => failed.filter((timed) => excuseOf(timed) === excuse).length;
  return {
    requests: calls.length,
    failedRequests: failed.length,
    excused: { cut: excused("cut"), dropped: excused("dropped") },
    failures: failed
      .toSorted((one, other) => Number(excuseOf(one) !== undefined) - Number(excuseOf(other) !== undefined))
      .slice(0, examples)
      .map(describeCall),
    protocols: { http1: of("http1"), http2: of("http2") },
    longestGapMs: gaps[0]?.ms ?? 0,
    gaps,
  };
}

/** What is served against what was acknowledged, and what writers have noticed themselves; each key once. */
async function findLost({ programs, observer, namespace }: ControlPlaneClients): Promise<LostWrite[]> {
  const path = objectPath(undefined, configMaps, namespace);
  const { items } = await jsonFrom<{ items: StoredObject[] }>(observer, { method: "GET", path });
  const found = new Map(
    items.map((item) => [keyOf(configMaps, item.metadata.name), contentOf(configMaps, item)?.version ?? -1]),
  );
  return programs.flatMap((program) => lostOf(program, found));
}

function lostOf({ ledger, findings }: Program, found: ReadonlyMap<string, number>): LostWrite[] {
  const lost = new Map(findings.lost.map((one) => [one.key, one]));
  for (const key of ledger.keys) {
    const judgement = ledger.judge(key, found.get(key) ?? null);
    if (judgement !== undefined) lost.set(key, judgement);
  }
  return [...lost.values()];
}

async function concludeWatches(watches: readonly Watch[], catchUpMs: number) {
  await Promise.all(
    watches.flatMap(({ watcher, programs }) =>
      programs.map(async ({ ledger }) => await watcher.catchUp(ledger, catchUpMs)),
    ),
  );
  const comparisons = watches.flatMap(({ watcher, programs, protocol }) =>
    programs.map(({ ledger }) => ({
      title: `${protocol} watch of ${watcher.title}`,
      ...watcher.log.compare(ledger),
    })),
  );
  const missed = comparisons.flatMap(({ title, missed: writes }) =>
    writes.map((write) => `${title}: ${describeWrite(write)}`),
  );
  return {
    watches: watches.length,
    events: sum(watches, ({ watcher }) => watcher.log.events),
    missedEvents: missed.length,
    missedExamples: missed.slice(0, examples),
    duplicateEvents: sum(watches, ({ watcher }) => watcher.disorder.length),
    watchBreaks: sum(watches, ({ watcher }) => watcher.log.breaks),
    relists: sum(watches, ({ watcher }) => watcher.log.relists),
    skippedInRelists: sum(comparisons, ({ skipped }) => skipped),
    regressions: sum(watches, ({ watcher }) => watcher.log.regressions.length),
  };
}

function describeWrite({ key, number, kind, at }: Write): string {
  return `${kind} ${number} of ${key}, sent ${new Date(at).toISOString()}`;
}

function sum<T>(values: readonly T[], count: (value: T) => number): number {
  return values.reduce((total, value) => total + count(value), 0);
}
