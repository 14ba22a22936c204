import type { FailureType } from "./failures.ts";

/**
 * When a point of no return gives up without having taken effect, the move can go back and try again later
 * instead of being undone: the kind says for which failures, to which phase, and how often.
 */
export interface Comeback {
  readonly on: readonly FailureType[];
  /** Name of the phase to walk on from: an earlier one, or the same. */
  readonly to: string;
  /** Pause before walking on, in ms. Abort, pause and approvals work during it. */
  readonly afterMs: number;
  /** After this many comebacks the failure counts as a failure. */
  readonly atMost: number;
}

/**
 * One step of a move, as data. The runner decides when it runs, and whether it is undone.
 *
 * `C` is the kind's context: JSON-serialisable, filled by the phases as they go, carried over when the workflow
 * continues as new. Anything that is not in it is forgotten.
 */
export interface Phase<C> {
  /** Shown everywhere, and the name of the gate before this phase. UpperCamelCase, unique in its kind. */
  readonly name: string;
  /** What it does, in words that the subject's owner understands. */
  readonly summary: string;
  /** Left out, with its gate, when this answers false. Asked once, just before the phase. */
  readonly when?: (context: C) => boolean;
  /** Does the work through activities. Must be safe to run again: it may have run in part before. */
  readonly run: (context: C) => Promise<void>;
  /**
   * Restores what `run` changed. Called also when `run` failed, was cancelled or timed out half-way, so it finds
   * out from the systems what there is to undo, not from what `run` left in the context. Idempotent.
   */
  readonly undo?: (context: C) => Promise<void>;
  /**
   * Once `run` has returned, the move only goes forward. While it runs, abort is refused. `run` may throw a
   * non-retryable failure only if it certainly did not take effect; whatever else it throws (a time limit, exhausted
   * retries) leaves the move at this phase, in need of attention, until it has been run again.
   */
  readonly pointOfNoReturn?: true;
  /** `false`: a pause asked for does not hold the move before this phase, but before the next that allows it. */
  readonly pausable?: false;
  readonly comeback?: Comeback;
}

/** A phase by name: `phase('Copy', { summary, run, undo })`. */
export function phase<C>(name: string, rest: Omit<Phase<C>, "name">): Phase<C> {
  return { name, ...rest };
}

/**
 * Work that goes on beside the phases: runs while the walk is at `from` or later and before `until`, gate waits
 * included. When it fails, the move fails.
 */
export interface Background<C> {
  /** What it does, in words. */
  readonly summary: string;
  /** Starts with this phase, before the phase's `run`. */
  readonly from: string;
  /** Is cancelled, and its end awaited, just before the `run` of this phase; it still runs while its gate waits. */
  readonly until: string;
  /**
   * Runs until cancelled. It is stopped and started again when the workflow continues as new and when the walk comes
   * back to an earlier phase, so it keeps its place in the context, or finds it in the systems.
   */
  readonly run: (context: C) => Promise<void>;
}
