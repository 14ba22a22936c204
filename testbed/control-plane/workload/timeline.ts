import type { Call, Window } from "../../workload/account.ts";

/** Calls second by second. Pure. All times are ms since the epoch. */

export type Protocol = "http1" | "http2";

export interface TimedCall {
  readonly protocol: Protocol;
  readonly call: Call;
}

export interface Second {
  /** Its begin. */
  readonly at: number;
  /** Calls that were answered in it. */
  readonly calls: number;
  readonly failed: number;
  readonly medianMs: number;
  readonly slowestMs: number;
}

export interface SlowestSecond extends Second {
  /** Its slowest calls, the slowest first. */
  readonly slowest: readonly string[];
}

const shown = 10;

export function timelineOf(calls: readonly TimedCall[], { from, to }: Window): Second[] {
  const count = Math.max(0, Math.ceil((to - from) / 1000));
  const seconds: TimedCall[][] = Array.from({ length: count }, () => []);
  for (const timed of calls) seconds[Math.floor((timed.call.endedAt - from) / 1000)]?.push(timed);
  return seconds.map((within, index) => summarise(from + index * 1000, within));
}

/** @returns undefined where there were no calls */
export function slowestSecond(calls: readonly TimedCall[], window: Window): SlowestSecond | undefined {
  const slowest = timelineOf(calls, window).reduce<Second | undefined>(
    (worst, second) => (worst === undefined || second.slowestMs > worst.slowestMs ? second : worst),
    undefined,
  );
  if (slowest === undefined) return undefined;
  const within = calls.filter(({ call }) => call.endedAt >= slowest.at && call.endedAt < slowest.at + 1000);
  const sorted = within.toSorted((one, other) => latencyOf(other) - latencyOf(one));
  return { ...slowest, slowest: sorted.slice(0, shown).map(describeCall) };
}

/** e.g. `2026-01-02T03:04:05.678Z http2 update configmaps: 200 after 12 ms` */
export function describeCall(timed: TimedCall): string {
  const { protocol, call } = timed;
  const { verb, resource, status, attempts, words, firstStartedAt } = call;
  const tries = attempts === 1 ? "" : ` and ${attempts} attempts`;
  const begin = new Date(firstStartedAt).toISOString();
  const answer = words === undefined ? "" : `: ${words}`;
  return `${begin} ${protocol} ${verb} ${resource}: ${status} after ${Math.round(latencyOf(timed))} ms${tries}${answer}`;
}

/** Of a call from its first attempt on, with all pauses between attempts. */
function latencyOf({ call }: TimedCall): number {
  return call.endedAt - call.firstStartedAt;
}

function summarise(at: number, within: readonly TimedCall[]): Second {
  const latencies = within.map(latencyOf).toSorted((one, other) => one - other);
  return {
    at,
    calls: within.length,
    failed: within.filter(({ call }) => call.outcome === "failed").length,
    medianMs: Math.round(latencies[Math.floor(latencies.length / 2)] ?? 0),
    slowestMs: Math.round(latencies.at(-1) ?? 0),
  };
}
