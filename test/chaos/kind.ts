import type { WorkflowHandle } from "@temporalio/client";
import type { Fault, Place } from "./fault.ts";
import type { Stage } from "./matrix.ts";

export type Opened<P> = P & { close(): Promise<void> };

/** A kind of move as the fault matrix sees it. */
export interface Kind<P extends Place> {
  readonly name: string;
  /** In order, with `Preflight`, before which there is no gate, and which may refuse for a fault. */
  readonly stages: readonly Stage[];
  readonly faults: readonly Fault<P>[];
  open(): Promise<Opened<P>>;
  /** Puts clients to work in what is to be moved. */
  begin(place: P): Promise<Round>;
}

/** One move, and the clients that live through it. */
export interface Round {
  /** Starts the move, with a gate before each of these phases. */
  start(gates: readonly string[]): Promise<WorkflowHandle>;
  /**
   * Ends the clients and checks every invariant.
   * @param report of the move; undefined when it was refused, so that nothing may have changed.
   * @param hidden no request may have failed for the fault; see {@link Fault}.
   */
  conclude(report: unknown, hidden: boolean): Promise<Conclusion>;
}

export interface Conclusion {
  /** What is broken, in words; empty when all holds. */
  readonly broken: readonly string[];
  /** The longest that clients went without a success of some verb, beyond their usual interval. */
  readonly longestGapMs: number;
}
