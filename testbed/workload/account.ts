import { longestGap } from "./gaps.ts";
import type { Gap } from "./gaps.ts";

/** What clients asked and how they were answered. Pure. All times are ms since the epoch. */

export const verbs = ["get", "list", "create", "update", "delete"] as const;
export type Verb = (typeof verbs)[number];

/** One HTTP request and its answer. */
export interface Attempt {
  readonly verb: Verb;
  readonly resource: string;
  readonly startedAt: number;
  readonly endedAt: number;
  /** HTTP status; 0 when the connection broke. */
  readonly status: number;
}

/** What a client-go program would have made of a request, after its own retries. */
export interface Call {
  readonly verb: Verb;
  readonly resource: string;
  /** Of the attempt that decided it. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly status: number;
  readonly attempts: number;
  readonly outcome: "succeeded" | "failed";
  /** For a failure: the answer in words. */
  readonly words?: string;
}

export interface GapOf extends Gap {
  readonly verb: Verb;
  readonly resource: string;
}

/** From when on and until when requests could be refused or cut. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

export interface Failures {
  /** Failed for a client-go program, and not explained by the cut. */
  readonly failed: readonly Call[];
  /** Answered 504 because they were under way when the fence cut the cluster's connections. */
  readonly inFlightAtCut: readonly Call[];
  /** Answered 504 although sent while the fence stood: kcp answers some so instead of 503 with Retry-After. */
  readonly timedOutInFence: readonly Call[];
}

const gatewayTimeout = 504;

export class Account {
  readonly #attempts: Attempt[] = [];
  readonly #calls: Call[] = [];

  get attempts(): readonly Attempt[] {
    return this.#attempts;
  }

  get calls(): readonly Call[] {
    return this.#calls;
  }

  addAttempt(attempt: Attempt): void {
    this.#attempts.push(attempt);
  }

  addCall(call: Call): void {
    this.#calls.push(call);
  }

  /**
   * The longest gap of each verb and resource, the longest first.
   * @param window leave out what began before and what ended after it
   */
  gaps(window: Window): GapOf[] {
    const successes = new Map<string, { verb: Verb; resource: string; times: number[] }>();
    for (const { verb, resource, status, endedAt } of this.#attempts) {
      if (status < 200 || status > 299 || endedAt < window.from || endedAt > window.to) continue;
      const name = `${verb} ${resource}`;
      const group = successes.get(name) ?? { verb, resource, times: [] };
      successes.set(name, group);
      group.times.push(endedAt);
    }
    const gaps = [...successes.values()].flatMap(({ verb, resource, times }) => {
      const gap = longestGap(times, window.to);
      return gap === undefined ? [] : [{ ...gap, verb, resource }];
    });
    return gaps.sort((one, other) => other.ms - one.ms);
  }

  /**
   * The calls that failed, sorted by what explains them.
   * @param fence from when the fence was asked for until every front-proxy had switched; undefined: nothing does
   */
  failures(fence: Window | undefined): Failures {
    const failed: Call[] = [];
    const inFlightAtCut: Call[] = [];
    const timedOutInFence: Call[] = [];
    for (const call of this.#calls) {
      if (call.outcome === "succeeded") continue;
      const { startedAt, endedAt, status } = call;
      const overlaps = fence !== undefined && startedAt <= fence.to && endedAt >= fence.from;
      if (status !== gatewayTimeout || !overlaps) failed.push(call);
      else (startedAt < fence.from ? inFlightAtCut : timedOutInFence).push(call);
    }
    return { failed, inFlightAtCut, timedOutInFence };
  }

  /** How many attempts were answered with each status that is not a success, e.g. `{ 503: 12 }`. */
  refusals(): Readonly<Record<number, number>> {
    const counts: Record<number, number> = {};
    for (const { status } of this.#attempts) {
      if (status < 200 || status > 299) counts[status] = (counts[status] ?? 0) + 1;
    }
    return counts;
  }
}
