import { ApplicationFailure, CancelledFailure } from "@temporalio/common";
import { allHandlersFinished, CancellationScope, condition, continueAsNew } from "@temporalio/workflow";
import { backgroundWork } from "./background.ts";
import type { BackgroundWork } from "./background.ts";
import { checkDefinition, checkGates } from "./definition.ts";
import type { Carried, Definition } from "./definition.ts";
import { applicationFailure, failureType, isTemporalFailure, plainWords } from "./failures.ts";
import { heedCancellation, interruption, runUntilInterrupted } from "./interrupt.ts";
import { openJournal } from "./journal.ts";
import type { Journal } from "./journal.ts";
import { answerMessages } from "./messages.ts";
import { initialState, PREFLIGHT } from "./state.ts";
import { timelineOf } from "./timeline.ts";
import type { Timeline } from "./timeline.ts";
import { undoAll } from "./undo.ts";
import { walk } from "./walk.ts";

/** `details[0]` of the failure that ends a move: what an auditor asks. */
export interface EndDetails {
  /** Where it failed, or was when it was aborted. */
  readonly phase: string;
  /** Who aborted and why, when it was aborted. */
  readonly by?: string;
  readonly reason?: string;
  /** The failed activity's own facts, when it failed. */
  readonly facts?: unknown;
  /** Everything that was started has been undone when this is written. */
  readonly timeline: Timeline;
}

/**
 * Runs a move of any kind from its preflight to its end.
 *
 * @param raw the workflow's first argument, unchecked.
 * @param carried the workflow's second argument: set only when the workflow has continued as new.
 * @returns the report, or in a dry run the plan.
 * @throws ApplicationFailure of a `FailureType`, with `EndDetails`; `Aborted` when a person stopped it. CancelledFailure
 *   when the workflow was cancelled. All of them only after everything has been undone.
 */
export async function runMigration<C, R>(
  definition: Definition<C, R>,
  raw: unknown,
  carried?: Carried<C>,
): Promise<R> {
  checkDefinition(definition);
  const journal = openJournal(carried?.state ?? initialState(definition.kind, definition.phases, Date.now()));
  answerMessages(journal);
  heedCancellation(journal, CancellationScope.current());
  // From here on only the runner cancels anything, phase by phase: a cancelled workflow must still undo its work.
  return await CancellationScope.nonCancellable(async () => {
    try {
      const context = carried === undefined ? await admit(definition, journal, raw) : carried.context;
      return await conduct(definition, journal, raw, context);
    } catch (error) {
      if (!isTemporalFailure(error)) throw error;
      await condition(allHandlersFinished);
      throw ending(journal, error);
    }
  });
}

async function admit<C, R>(definition: Definition<C, R>, journal: Journal, raw: unknown): Promise<C> {
  const { value, error, interrupted } = await runUntilInterrupted(
    () => definition.preflight(raw),
    () => interruption(journal),
  );
  if (error !== undefined && !isTemporalFailure(error)) throw error;
  if (interrupted !== undefined) {
    journal.record({ type: "phase stopped", phase: PREFLIGHT });
    throw interrupted;
  }
  if (value === undefined) throw preflightFailed(journal, error);
  const { context, gates, dryRun, subject, source, destination } = value;
  try {
    checkGates(definition, gates);
  } catch (unknownGate) {
    throw preflightFailed(journal, unknownGate);
  }
  journal.record({ type: "admitted", subject, source, destination, gates, dryRun });
  return context;
}

function preflightFailed(journal: Journal, error: unknown): unknown {
  journal.record({
    type: "phase failed",
    phase: PREFLIGHT,
    failure: failureType(error),
    message: plainWords(error),
  });
  return error;
}

/** From the first phase, or where the last run of the workflow left off, to the report. */
async function conduct<C, R>(
  definition: Definition<C, R>,
  journal: Journal,
  raw: unknown,
  context: C,
): Promise<R> {
  const background = backgroundWork(definition.background, context);
  try {
    await walk({
      definition,
      journal,
      background,
      context,
      continueAsNew: () => goOnAsNew(journal, background, raw, { context }),
    });
  } catch (error) {
    if (!isTemporalFailure(error)) throw error;
    if (journal.state.lastError === undefined || background.failure === error) noteFault(journal, error);
    await background.stop();
    if (!journal.state.dryRun) await undoAll(journal, definition.phases, context);
    throw error;
  }
  await condition(allHandlersFinished);
  journal.record({ type: "ended", status: "completed" });
  const timeline = timelineOf(journal.state, Date.now());
  return journal.state.dryRun && definition.plan !== undefined
    ? definition.plan(context, timeline)
    : definition.report(context, timeline);
}

/** Background work fails beside the phase that runs: its words replace those of the phase that was stopped for it. */
function noteFault(journal: Journal, error: Error): void {
  if (journal.state.abort !== undefined) return;
  const { phase } = journal.state;
  journal.record({ type: "phase failed", phase, failure: failureType(error), message: plainWords(error) });
}

async function goOnAsNew(
  journal: Journal,
  background: BackgroundWork,
  raw: unknown,
  rest: Omit<Carried<unknown>, "state">,
): Promise<void> {
  await background.stop();
  await condition(allHandlersFinished);
  if (!journal.state.committed && interruption(journal, background) !== undefined) return;
  const carried: Carried<unknown> = { ...rest, state: journal.state };
  await continueAsNew<(raw: unknown, carried: Carried<unknown>) => Promise<unknown>>(raw, carried);
}

/** Records how the move ended, and makes the error that says so to Temporal. */
function ending(journal: Journal, error: Error): Error {
  const { abort, lastError } = journal.state;
  const phase = abort?.phase ?? lastError?.phase ?? journal.state.phase;
  const status = abort === undefined ? "failed" : abort.native === true ? "cancelled" : "aborted";
  journal.record({ type: "ended", status });
  const timeline = timelineOf(journal.state, Date.now());
  if (abort?.native === true)
    return new CancelledFailure("cancelled, and everything is undone", [{ phase, timeline }]);
  if (abort !== undefined) {
    const { by, reason = "" } = abort;
    const details: EndDetails = { phase, by, reason, timeline };
    return ApplicationFailure.nonRetryable(`aborted by ${by}: ${reason}`, "Aborted", details);
  }
  const details: EndDetails = { phase, facts: applicationFailure(error)?.details?.[0], timeline };
  return ApplicationFailure.create({
    type: failureType(error),
    message: plainWords(error),
    nonRetryable: true,
    details: [details],
    cause: error,
  });
}
