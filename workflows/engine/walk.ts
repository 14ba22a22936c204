import { condition, patched, workflowInfo } from "@temporalio/workflow";
import type { BackgroundWork } from "./background.ts";
import type { Definition } from "./definition.ts";
import { failureType, isConclusive, isTemporalFailure, plainWords } from "./failures.ts";
import { abortByCancellation, interruption, runUntilInterrupted } from "./interrupt.ts";
import type { Journal } from "./journal.ts";
import { LONG_HISTORY } from "./names.ts";
import type { Phase } from "./phase.ts";
import type { MigrationState } from "./state.ts";

/** What the walk over the phases works with. */
export interface Course<C> {
  readonly definition: Pick<Definition<C, unknown>, "phases" | "background">;
  readonly journal: Journal;
  readonly background: BackgroundWork;
  readonly context: C;
  /** Ends this run of the workflow and starts the next; returns only when the move was interrupted meanwhile. */
  continueAsNew(): Promise<void>;
}

/**
 * Runs the phases that are still to run, in order.
 *
 * @throws what ends the move before its point of no return: `Aborted`, or the failure of a phase or of the background
 *   work, with nothing undone yet. Anything else that is thrown is a defect of workflow code.
 */
export async function walk<C>(course: Course<C>): Promise<void> {
  const { phases } = course.definition;
  const { steps } = course.journal.state;
  let index = steps.slice(1).filter(({ state }) => state === "done" || state === "skipped").length;
  for (let phase = phases[index]; phase !== undefined; phase = phases[index]) {
    index = await takeStep(course, phase, index);
  }
}

/** @returns the index of the phase to go on with. */
async function takeStep<C>(course: Course<C>, phase: Phase<C>, index: number): Promise<number> {
  const { journal, background, context, definition } = course;
  if (phase.when?.(context) === false) {
    journal.record({ type: "phase skipped", phase: phase.name });
    return index + 1;
  }
  const { from, until } = backgroundSpan(definition);
  // Started here only after continuing as new, or when the walk came back.
  if (from < index && index <= until && wasRun(journal.state, definition.background?.from))
    background.start();
  await hold(course, phase);
  if (index === from) background.start();
  if (index >= until) await background.stop();
  throwIfInterrupted(course);
  return await runPhase(course, phase, index);
}

function backgroundSpan<C>({ phases, background }: Course<C>["definition"]): { from: number; until: number } {
  const indexOf = (name: string | undefined) => phases.findIndex((phase) => phase.name === name);
  return { from: indexOf(background?.from), until: indexOf(background?.until) };
}

function wasRun(state: MigrationState, name: string | undefined): boolean {
  return state.steps.some((step) => step.name === name && step.state === "done");
}

function throwIfInterrupted<C>({ journal, background }: Course<C>): void {
  const reason = journal.state.committed ? undefined : interruption(journal, background);
  if (reason !== undefined) throw reason;
}

/** Waits before a phase for its approval and for the end of a pause, and continues as new where that is due. */
async function hold<C>(course: Course<C>, phase: Phase<C>): Promise<void> {
  const { journal, background } = course;
  // Continuing as new takes a moment, so it is not done where users wait.
  const due = () => phase.pausable !== false && isHistoryLong();
  for (;;) {
    throwIfInterrupted(course);
    if (due()) await course.continueAsNew();
    const status = heldBy(journal.state, phase);
    if (status === undefined) return;
    if (journal.state.status !== status || journal.state.phase !== phase.name) {
      journal.record({ type: "held", status, phase: phase.name });
    }
    await condition(
      () =>
        interruption(journal, background) !== undefined || heldBy(journal.state, phase) !== status || due(),
    );
  }
}

function isHistoryLong(): boolean {
  const { continueAsNewSuggested, historyLength } = workflowInfo();
  return continueAsNewSuggested || (historyLength >= LONG_HISTORY && patched("continues-sooner"));
}

function heldBy<C>(state: MigrationState, { name, pausable }: Phase<C>): "waiting" | "paused" | undefined {
  const approved = state.approvals.some(({ gate }) => gate === name);
  if (!state.dryRun && state.gates.includes(name) && !approved) return "waiting";
  return state.paused !== undefined && pausable !== false ? "paused" : undefined;
}

async function runPhase<C>(course: Course<C>, phase: Phase<C>, index: number): Promise<number> {
  const { journal, background, context } = course;
  const { dryRun, committed } = journal.state;
  const commits = !dryRun && phase.pointOfNoReturn === true;
  const undo = !dryRun && !committed && phase.undo !== undefined;
  // Recorded before it runs: a phase that took effect and then timed out must be undone too.
  journal.record({ type: "phase started", phase: phase.name, undo });
  const watch = commits || committed ? undefined : () => interruption(journal, background);
  const { error, interrupted } = await runUntilInterrupted(() => phase.run(context), watch);
  if (error !== undefined && !isTemporalFailure(error)) throw error;
  if (interrupted !== undefined) {
    journal.record({ type: "phase stopped", phase: phase.name });
    throw interrupted;
  }
  if (error === undefined) {
    journal.record({ type: "phase done", phase: phase.name, committed: commits });
    return index + 1;
  }
  const failed = { phase: phase.name, failure: failureType(error), message: plainWords(error) };
  journal.record({ type: "phase failed", ...failed });
  if (committed || (commits && !isConclusive(error))) return await awaitResume(course, phase, index);
  if (commits && mayComeBack(journal.state, phase, error)) return await comeBack(course, phase);
  throw error;
}

/** The point of no return is, or may be, behind, so there is no way back: a person removes the cause and resumes. */
async function awaitResume<C>({ journal }: Course<C>, phase: Phase<C>, index: number): Promise<number> {
  const before = journal.state.resumes.length;
  journal.record({ type: "attention needed", phase: phase.name });
  await condition(() => journal.state.resumes.length > before);
  return index;
}

function mayComeBack<C>(state: MigrationState, { comeback }: Phase<C>, error: Error): boolean {
  return (
    comeback !== undefined && comeback.on.includes(failureType(error)) && state.comebacks < comeback.atMost
  );
}

async function comeBack<C>(course: Course<C>, { name, comeback }: Phase<C>): Promise<number> {
  const { journal, background, definition } = course;
  const { to = name, afterMs = 0 } = comeback ?? {};
  const index = definition.phases.findIndex((phase) => phase.name === to);
  journal.record({ type: "came back", to });
  if (journal.state.cancellationIgnored !== undefined) abortByCancellation(journal);
  throwIfInterrupted(course);
  if (afterMs > 0) {
    journal.record({ type: "held", status: "retrying later", phase: to });
    const summary = `Wait before going back to ${to}`;
    await condition(() => interruption(journal, background) !== undefined, afterMs, { summary });
  }
  throwIfInterrupted(course);
  return index;
}
