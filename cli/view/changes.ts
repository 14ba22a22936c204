import type { MigrationState, StepProgress } from "../../workflows/engine/state.ts";
import { duration, oneLine, timestamp } from "./format.ts";
import { commandFor } from "./hints.ts";
import type { Hints } from "./hints.ts";
import {
  lagWords,
  outcomeWords,
  placeWords,
  progressWords,
  routeWords,
  said,
  silenceWords,
  troubleWords,
} from "./says.ts";
import { figuresOf, lagOf } from "./sight.ts";
import type { Sight } from "./sight.ts";

/**
 * Figures change all the time. They are told again after a tenth of the time since the start, within these limits: a
 * move of seconds shows how it gets on, and one of hours does not fill the log.
 */
const FIGURES_AFTER_MS = { least: 5000, most: 60_000 };

interface Change {
  readonly at: number;
  readonly text: string;
}

/**
 * A move as a log: each sight is compared with the one before it, and what has changed makes one line, with the time
 * at which it happened. Reads no clock, writes nothing.
 */
export class ChangeLog {
  readonly #hints: Hints;
  #before: Sight | undefined;
  #figuresSaidAt = 0;
  #figuresSaid = "";

  constructor(hints: Hints) {
    this.#hints = hints;
  }

  /** The lines that the next sight adds, in the order in which things happened. */
  linesFor(sight: Sight): string[] {
    const before = this.#before;
    const changes = [
      ...stateChanges(before?.state, sight, this.#hints),
      ...this.#figures(sight),
      ...surroundings(before, sight),
    ];
    if (sight.outcome !== undefined && before?.outcome === undefined) {
      const report = commandFor(this.#hints, "report", sight.workflowId);
      const text = `${outcomeWords(sight, sight.outcome)}; what happened: ${report}`;
      changes.push({ at: sight.closedAt ?? sight.at, text });
    }
    this.#before = sight;
    // What happened in between two sights has its own time; the sort is stable, so ties keep their order.
    const ordered = changes.sort((one, other) => one.at - other.at);
    return ordered.map(({ at, text }) => `${timestamp(at)} ${text}`);
  }

  #figures(sight: Sight): Change[] {
    const { least, most } = FIGURES_AFTER_MS;
    const afterMs = Math.min(most, Math.max(least, (sight.at - sight.startedAt) / 10));
    if (sight.at - this.#figuresSaidAt < afterMs || sight.outcome !== undefined) return [];
    const lag = lagOf(sight);
    const running = (sight.state?.steps ?? []).flatMap((step) => {
      const figures = step.state === "running" ? figuresOf(sight, step) : undefined;
      return figures === undefined ? [] : [`${step.name}: ${progressWords(figures)}`];
    });
    const parts = [...running, ...(lag === undefined ? [] : [lagWords(sight, lag)])];
    const text = parts.join("; ");
    if (text === "" || text === this.#figuresSaid) return [];
    this.#figuresSaidAt = sight.at;
    this.#figuresSaid = text;
    return [{ at: sight.at, text }];
  }
}

/** What the move itself does not know: who answers, and what is tried again. */
function surroundings(before: Sight | undefined, sight: Sight): Change[] {
  const changes: Change[] = [];
  const { at, silence } = sight;
  if (silence?.who !== before?.silence?.who && sight.outcome === undefined) {
    const text =
      silence === undefined ? `${before?.silence?.who ?? "it"} answers again` : silenceWords(silence);
    changes.push({ at, text });
  }
  const told = new Set(before === undefined ? [] : troubleWords(before).map(withoutTimes));
  for (const trouble of troubleWords(sight)) {
    if (!told.has(withoutTimes(trouble))) changes.push({ at, text: trouble });
  }
  return changes;
}

/** A wait that goes on is no news. */
function withoutTimes(text: string): string {
  return text.replace(/waited .* for a worker/, "waited for a worker");
}

function stateChanges(before: MigrationState | undefined, sight: Sight, hints: Hints): Change[] {
  const { state } = sight;
  if (state === undefined) return [];
  return [
    ...state.steps.flatMap((step, index) => stepChanges(before?.steps[index], step, sight)),
    ...admission(before, sight, state),
    ...wordsSpoken(before, state),
    ...holds(before, sight, state, hints),
    ...faults(before, state),
  ];
}

function admission(before: MigrationState | undefined, sight: Sight, state: MigrationState): Change[] {
  if (!state.admitted || before?.admitted === true) return [];
  const gates = state.gates.length === 0 ? "" : `; gates: ${state.gates.join(", ")}`;
  const dry = state.dryRun ? " (dry run: nothing is changed)" : "";
  const at = state.steps[0]?.endedAt ?? state.startedAt;
  return [{ at, text: `moves ${routeWords(sight)}${gates}${dry}` }];
}

function stepChanges(before: StepProgress | undefined, step: StepProgress, sight: Sight): Change[] {
  const { name, state, startedAt, endedAt, runs } = step;
  if (before?.state === state && before.runs === runs) return [];
  const took =
    startedAt === undefined || endedAt === undefined ? "" : ` after ${duration(endedAt - startedAt)}`;
  const again = runs > 1 ? `, run ${runs}` : "";
  switch (state) {
    case "pending":
      return before === undefined ? [] : [{ at: sight.at, text: `${name} is to be done again` }];
    case "running":
      return [{ at: startedAt ?? sight.at, text: `${name} started${again}: ${oneLine(step.summary)}` }];
    case "skipped":
      return [{ at: endedAt ?? sight.at, text: `${name} is not needed` }];
    case "done": {
      const what = sight.state?.dryRun === true ? "is planned" : `done${took}${again}`;
      return [{ at: endedAt ?? sight.at, text: `${name} ${what}` }];
    }
    case "failed":
    case "stopped":
      return [{ at: endedAt ?? sight.at, text: `${name} ${state}${took}` }];
    case "undoing":
      return [{ at: sight.at, text: `${name} is being undone` }];
    case "undone":
      return [{ at: endedAt ?? sight.at, text: `${name} is undone` }];
    default:
      return state satisfies never;
  }
}

function wordsSpoken(before: MigrationState | undefined, state: MigrationState): Change[] {
  const changes: Change[] = [];
  for (const approval of state.approvals.slice(before?.approvals.length ?? 0)) {
    changes.push({ at: approval.at, text: `${approval.gate} approved ${said(approval)}` });
  }
  for (const resume of state.resumes.slice(before?.resumes.length ?? 0)) {
    changes.push({ at: resume.at, text: `resumed ${said(resume)}` });
  }
  const { paused, abort } = state;
  if (paused !== undefined && before?.paused?.at !== paused.at) {
    changes.push({ at: paused.at, text: `pause asked ${said(paused)}` });
  }
  if (abort !== undefined && before?.abort === undefined) {
    changes.push({ at: abort.at, text: `abort asked ${said(abort)}` });
  }
  return changes;
}

/** What the move waits for, with the command that ends the wait. */
function holds(
  before: MigrationState | undefined,
  sight: Sight,
  state: MigrationState,
  hints: Hints,
): Change[] {
  if (before?.status === state.status && before.phase === state.phase) return [];
  const { at, workflowId } = sight;
  const by = ["--by", hints.by];
  const resume = commandFor(hints, "resume", workflowId, ...by);
  switch (state.status) {
    case "waiting": {
      const approve = commandFor(hints, "approve", workflowId, "--gate", state.phase, ...by);
      return [{ at, text: `waits for approval before ${state.phase}: ${approve}` }];
    }
    case "paused":
      return [{ at, text: `paused before ${state.phase}; go on: ${resume}` }];
    case "retrying later":
      return [{ at, text: `came back to ${state.phase}, and tries again in a moment` }];
    case "needs attention":
      return [{ at, text: `needs attention in ${placeWords(state)}; once the cause is gone: ${resume}` }];
    case "undoing":
      return before?.status === "undoing" ? [] : [{ at, text: "undoes what was done" }];
    case "running":
    case "completed":
    case "failed":
    case "aborted":
    case "cancelled":
      return [];
    default:
      return state.status satisfies never;
  }
}

function faults(before: MigrationState | undefined, state: MigrationState): Change[] {
  const changes: Change[] = [];
  const { lastError, cancellationIgnored } = state;
  if (lastError !== undefined && before?.lastError?.at !== lastError.at) {
    changes.push({ at: lastError.at, text: `error in ${lastError.phase}: ${oneLine(lastError.message)}` });
  }
  for (const fault of state.undoErrors) {
    const known = before?.undoErrors.some(
      ({ phase, message }) => phase === fault.phase && message === fault.message,
    );
    if (known !== true)
      changes.push({ at: fault.at, text: `undo of ${fault.phase} fails: ${oneLine(fault.message)}` });
  }
  if (cancellationIgnored !== undefined && before?.cancellationIgnored === undefined) {
    changes.push({
      at: state.startedAt,
      text: `a cancellation was ignored: ${oneLine(cancellationIgnored)}`,
    });
  }
  return changes;
}
