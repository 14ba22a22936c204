import { setCurrentDetails, upsertSearchAttributes, workflowInfo } from "@temporalio/workflow";
import type { SearchAttributeUpdatePair } from "@temporalio/common";
import { renderDetails } from "./details.ts";
import { SEARCH_ATTRIBUTES } from "./names.ts";
import type { MigrationState, Status } from "./state.ts";

const STATUS_PHASES: Partial<Record<Status, string>> = {
  waiting: "AwaitApproval",
  paused: "Paused",
  "retrying later": "RetryLater",
  undoing: "Undo",
  "needs attention": "NeedsAttention",
  completed: "Completed",
  failed: "Failed",
  aborted: "Aborted",
  cancelled: "Cancelled",
};

/** Value of `RehomePhase`: the phase at work, or what holds the move, so that a list shows who must do something. */
export function searchPhase(state: MigrationState): string {
  return STATUS_PHASES[state.status] ?? state.phase;
}

/** Share of steps that are behind, 0 to 1. Counts steps and not data: it may only change with the phase. */
export function share(state: MigrationState): number {
  const behind = state.steps.filter(({ state: step }) => step === "done" || step === "skipped").length;
  return state.status === "completed" ? 1 : Math.round((behind / state.steps.length) * 100) / 100;
}

export interface Shown {
  readonly phase: string;
  readonly admitted: boolean;
}

/**
 * Brings the UI up to date: current details at each change (they cost no event), search attributes only when the
 * phase has changed (each upsert is an event).
 */
export function showState(state: MigrationState, shown: Shown | undefined): Shown {
  setCurrentDetails(renderDetails(state, workflowInfo().workflowId));
  const now: Shown = { phase: searchPhase(state), admitted: state.admitted };
  if (shown?.phase === now.phase && shown.admitted === now.admitted) return now;
  const pairs: SearchAttributeUpdatePair[] = [
    { key: SEARCH_ATTRIBUTES.phase, value: now.phase },
    { key: SEARCH_ATTRIBUTES.progress, value: share(state) },
  ];
  if (shown === undefined) pairs.push({ key: SEARCH_ATTRIBUTES.kind, value: state.kind });
  if (state.admitted && shown?.admitted !== true) {
    pairs.push(
      { key: SEARCH_ATTRIBUTES.subject, value: state.subject },
      { key: SEARCH_ATTRIBUTES.source, value: state.source },
      { key: SEARCH_ATTRIBUTES.destination, value: state.destination },
    );
  }
  upsertSearchAttributes(pairs);
  return now;
}
