import { defineSearchAttributeKey } from "@temporalio/common";

/** Names that workflows, workers and clients must agree on. Pure, so that any room can import it. */

/** The queue of workflows and of their steps. */
export const TASK_QUEUE = "rehome";

/** Name of the queue for bulk work that goes with a queue for steps: `rehome` → `rehome-transfer`. */
export function transferQueue(stepsQueue: string): string {
  return `${stepsQueue}-transfer`;
}

/** Name of the queue for what goes on as long as a move waits for a person: `rehome` → `rehome-follow`. */
export function followQueue(stepsQueue: string): string {
  return `${stepsQueue}-follow`;
}

/** Prefix of the activity names under which a worker registers the implementation that changes nothing. */
export const DRY_RUN_PREFIX = "dryRun:";

/** The same activities under the names that a dry run calls. */
export function underDryRunNames<F>(activities: Readonly<Record<string, F>>): Record<string, F> {
  return Object.fromEntries(
    Object.entries(activities).map(([name, run]) => [`${DRY_RUN_PREFIX}${name}`, run]),
  );
}

/**
 * What can be searched and listed. Registered by the worker. Never encrypted, so nothing but names of sites, of the
 * subject and of phases goes in.
 */
export const SEARCH_ATTRIBUTES = {
  kind: defineSearchAttributeKey("RehomeKind", "KEYWORD"),
  phase: defineSearchAttributeKey("RehomePhase", "KEYWORD"),
  subject: defineSearchAttributeKey("RehomeSubject", "KEYWORD"),
  source: defineSearchAttributeKey("RehomeSource", "KEYWORD"),
  destination: defineSearchAttributeKey("RehomeDestination", "KEYWORD"),
  progress: defineSearchAttributeKey("RehomeProgress", "DOUBLE"),
} as const;

/**
 * Events after which a move goes on in a new run as soon as it may. Temporal suggests it at 4,096 only, but each turn reads
 * the whole history (docs/adr/0011-workflows-are-not-cached.md), and the SDK gives up a turn that takes more than 5 s.
 */
export const LONG_HISTORY = 1_000;
