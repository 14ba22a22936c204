import { longestGap } from "./gaps.ts";
import type { Gap } from "./gaps.ts";

/** What clients asked and how they were answered. Pure. All times are ms since the epoch. */

export const verbs = ["get", "list", "create", "update", "patch", "apply", "delete"] as const;
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
  /** Of the first attempt. */
  readonly firstStartedAt: number;
  /** Of the attempt that decided it. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly status: number;
  readonly attempts: number;
  /** `conflict`: refused with 409 because of its resourceVersion; its sender has read and tried again. */
  readonly outcome: "succeeded" | "conflict" | "failed";
  /** For a failure: the answer in words. */
  readonly words?: string;
}

export interface GapOf extends Gap {
  readonly verb: Verb;
  readonly resource: string;
}

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** The moments of a fence. */
export interface Fence {
  readonly askedAt: number;
  /** It was seen to refuse. */
  readonly provenAt: number;
  /** Every front-proxy served from the destination. */
  readonly routedAt: number;
}

export interface Failures {
  /** Failed for a client-go program, and not explained by the cut. */
  readonly failed: readonly Call[];
  /** Broken off because they were under way when the fence cut the cluster's connections. */
  readonly inFlightAtCut: readonly Call[];
  /** Sent inside the fence: kcp breaks some off instead of answering 503 with Retry-After, and denies some. */
  readonly cutInsideFence: readonly Call[];
}

/**
 * How a request that was under way ends when the fence cancels its context: the shard answers 504, or resets the
 * stream, which the front-proxy turns into 502.
 */
const cutStatuses: readonly number[] = [502, 504];

/**
 * Inside the fence also 403: a front-proxy may learn of the switch some milliseconds before the destination's own
 * authorizer does, which denies what belongs to a cluster that it has not read yet (kcp v0.32.3,
 * pkg/authorization/requiredgroups_authorizer.go).
 */
const isCut = (status: number, insideFence: boolean) =>
  cutStatuses.includes(status) || (insideFence && status === 403);

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
   * @param window leave out what was answered before and after it
   * @param across only gaps in which this window lies, at least in part
   */
  gaps(window: Window, across?: Window): GapOf[] {
    const successes = new Map<string, { verb: Verb; resource: string; times: number[] }>();
    for (const { verb, resource, status, endedAt } of this.#attempts) {
      if (status < 200 || status > 299 || endedAt < window.from || endedAt > window.to) continue;
      const name = `${verb} ${resource}`;
      const group = successes.get(name) ?? { verb, resource, times: [] };
      successes.set(name, group);
      group.times.push(endedAt);
    }
    const gaps = [...successes.values()].flatMap(({ verb, resource, times }) => {
      const gap = longestGap(times, window.to, across);
      return gap === undefined ? [] : [{ ...gap, verb, resource }];
    });
    return gaps.sort((one, other) => other.ms - one.ms);
  }

  /**
   * The calls that failed, sorted by what explains them.
   * @param fence undefined: nothing does
   */
  failures(fence: Fence | undefined): Failures {
    const failed: Call[] = [];
    const inFlightAtCut: Call[] = [];
    const cutInsideFence: Call[] = [];
    for (const call of this.#calls) {
      if (call.outcome !== "failed") continue;
      const { startedAt, endedAt, status } = call;
      const overlaps = fence !== undefined && startedAt <= fence.routedAt && endedAt >= fence.askedAt;
      if (!overlaps || !isCut(status, startedAt >= fence.provenAt)) failed.push(call);
      else (startedAt < fence.provenAt ? inFlightAtCut : cutInsideFence).push(call);
    }
    return { failed, inFlightAtCut, cutInsideFence };
  }

  get conflicts(): number {
    return this.#calls.filter(({ outcome }) => outcome === "conflict").length;
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
