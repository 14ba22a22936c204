import type { Call, Fence, GapOf } from "./account.ts";
import type { Clients } from "./clients.ts";
import type { LostWrite, Write } from "./ledger.ts";
import { configMaps, contentOf, objectPath } from "./resources.ts";
import type { StoredObject } from "./resources.ts";
import type { Traffic } from "./traffic.ts";
import { keyOf } from "./watcher.ts";

/** The clients' own account of a move. */
export interface ClientsResult {
  /** As a client-go program counts them: retries are part of their request. */
  readonly requests: number;
  readonly acknowledgedWrites: number;
  /** Failed after client-go's retries, and not explained by the cut. */
  readonly failedRequests: number;
  readonly failedCalls: readonly FailedCall[];
  /** Answered 504 or 502 because they were under way when the fence cut the connections. client-go does not retry these. */
  readonly inFlightAtCut: number;
  /** Answered 504 or 502 although sent inside the fence. client-go does not retry these either. */
  readonly cutInsideFence: number;
  /**
   * Writes refused because the resourceVersion they built on was the origin's: the writer read the object again, as
   * client-go's RetryOnConflict does, and its second attempt passed.
   */
  readonly conflicts: number;
  /** Examples of what is counted in `failedRequests`, `inFlightAtCut` and `cutInsideFence`. */
  readonly failures: readonly string[];
  /** Attempts that were not answered with a success, by status; what a plain client without retries would have got. */
  readonly refusedAttempts: Readonly<Record<number, number>>;
  /** Of ConfigMaps, over all verbs. */
  readonly longestGapMs: number;
  /** Of custom resources, whose storage at the destination may ask to come back in a second once. */
  readonly longestCustomResourceGapMs: number;
  /** The longest gap of ConfigMaps, and of custom resources, of those that the fence and the switch lie in. */
  readonly gapAtCutMs: number;
  readonly customResourceGapAtCutMs: number;
  /** The longest gap of each verb and resource. */
  readonly gaps: readonly GapOf[];
  /** The longest gap of ConfigMaps before the fence: what this machine does to clients without any move. */
  readonly longestGapBeforeMs: number;
  readonly longestStallMs: number;
  readonly lostWrites: number;
  readonly lostExamples: readonly LostWrite[];
  readonly staleReads: number;
  readonly resourceVersionRegressions: number;
  readonly missedEvents: number;
  readonly watches: readonly WatchResult[];
  readonly skippedBeats: number;
}

/** Ms since the epoch. */
export interface FailedCall {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly words: string;
}

export interface WatchResult {
  readonly watch: string;
  readonly events: number;
  /** How often the stream ended and was resumed. */
  readonly breaks: number;
  /** How often the server would not resume it and it had to list again. */
  readonly relists: number;
  readonly missed: number;
  readonly missedExamples: readonly string[];
  /** Writes seen only through a later one of the same object, after a break. */
  readonly skipped: number;
  readonly regressions: number;
  readonly refusals: Readonly<Record<number, number>>;
}

const examples = 10;
const watchersWithinMs = 15_000;

/**
 * Ends the requests and judges: every acknowledged write must be there, by path
 * and by id, and every watcher must have seen it. Ends the watches, too.
 *
 * @param fence of the move that took place meanwhile, if one did
 */
export async function conclude(
  clients: Clients,
  workspace: { readonly path: string; readonly cluster: string },
  fence?: Fence,
): Promise<ClientsResult> {
  await clients.stopRequests();
  const { account, traffics, window } = clients;
  const lost = (
    await Promise.all(traffics.map(async (traffic) => await findLost(clients, traffic, workspace)))
  ).flat();
  const watches = (await Promise.all(traffics.map(concludeWatches))).flat();
  const { failed, inFlightAtCut, cutInsideFence } = account.failures(fence);
  const gaps = account.gaps(window);
  const before = fence === undefined ? window : { from: window.from, to: fence.askedAt };
  const atCut = fence === undefined ? [] : account.gaps(window, { from: fence.askedAt, to: fence.routedAt });
  const sum = (count: (traffic: Traffic) => number) => traffics.reduce((total, one) => total + count(one), 0);
  await clients.stop();
  return {
    requests: account.calls.length,
    acknowledgedWrites: sum(({ ledger }) => ledger.acknowledgedCount),
    failedRequests: failed.length,
    failedCalls: failed.map((call) => ({
      startedAt: call.firstStartedAt,
      endedAt: call.endedAt,
      words: describe(call, fence),
    })),
    inFlightAtCut: inFlightAtCut.length,
    cutInsideFence: cutInsideFence.length,
    conflicts: account.conflicts,
    failures: [...failed, ...inFlightAtCut, ...cutInsideFence]
      .slice(0, examples)
      .map((call) => describe(call, fence)),
    refusedAttempts: account.refusals(),
    longestGapMs: longestOf(gaps, isConfigMap),
    longestCustomResourceGapMs: longestOf(gaps, (resource) => !isConfigMap(resource)),
    gapAtCutMs: longestOf(atCut, isConfigMap),
    customResourceGapAtCutMs: longestOf(atCut, (resource) => !isConfigMap(resource)),
    gaps: gaps.map((gap) => ({ ...gap, ms: Math.round(gap.ms), usualMs: Math.round(gap.usualMs) })),
    longestGapBeforeMs: longestOf(account.gaps(before), isConfigMap),
    longestStallMs: Math.round(clients.longestStallMs),
    lostWrites: lost.length,
    lostExamples: lost.slice(0, examples),
    staleReads: sum(({ findings }) => findings.stale.length),
    resourceVersionRegressions:
      sum(({ findings }) => findings.regressions.length) +
      watches.reduce((total, { regressions }) => total + regressions, 0),
    missedEvents: watches.reduce((total, { missed }) => total + missed, 0),
    watches,
    skippedBeats: sum(({ skipped }) => skipped),
  };
}

/** What is lost of one resource's writes, by path, by id, or in the eyes of their writers; each key once. */
async function findLost(
  clients: Clients,
  { resource, namespace, ledger, findings }: Traffic,
  workspace: { readonly path: string; readonly cluster: string },
): Promise<LostWrite[]> {
  const lost = new Map(findings.lost.map((one) => [one.key, one]));
  for (const cluster of [workspace.path, workspace.cluster]) {
    const path = objectPath(cluster, resource, namespace);
    const { items } = await clients.frontProxy.json<{ items: StoredObject[] }>({ method: "GET", path });
    const found = new Map(
      items.map((item) => [keyOf(resource, item.metadata.name), contentOf(resource, item)?.version ?? -1]),
    );
    for (const key of ledger.keys) {
      const judgement = ledger.judge(key, found.get(key) ?? null);
      if (judgement !== undefined) lost.set(key, judgement);
    }
  }
  return [...lost.values()];
}

async function concludeWatches({ watchers, ledger }: Traffic): Promise<WatchResult[]> {
  return await Promise.all(
    watchers.map(async (watcher) => {
      await watcher.catchUp(ledger, watchersWithinMs);
      const { missed, skipped } = watcher.log.compare(ledger);
      const { events, breaks, relists, regressions } = watcher.log;
      const { title: watch, refusals } = watcher;
      return {
        watch,
        events,
        breaks,
        relists,
        missed: missed.length,
        missedExamples: missed.slice(0, examples).map(wordsFor),
        skipped,
        regressions: regressions.length,
        refusals,
      };
    }),
  );
}

function isConfigMap(resource: string): boolean {
  return resource === configMaps.plural;
}

function longestOf(gaps: readonly GapOf[], matches: (resource: string) => boolean): number {
  return Math.round(gaps.find(({ resource }) => matches(resource))?.ms ?? 0);
}

function describe({ verb, resource, status, words, attempts, startedAt }: Call, fence?: Fence): string {
  const tries = attempts === 1 ? "" : ` after ${attempts} attempts`;
  const when = fence === undefined ? "" : `, sent ${offset(startedAt - fence.provenAt)} the fence was proven`;
  return `${verb} ${resource}: ${status}${tries}: ${words ?? ""}${when}`;
}

function offset(ms: number): string {
  return `${Math.abs(Math.round(ms))} ms ${ms < 0 ? "before" : "after"}`;
}

function wordsFor({ key, number, kind, at }: Write): string {
  return `${kind} ${number} of ${key}, sent ${new Date(at).toISOString()}`;
}
