import { hasEnded } from "../../workflows/engine/state.ts";
import type { Figures, MigrationState, StepProgress, StepState } from "../../workflows/engine/state.ts";
import { bar, duration, oneLine, percent, timeOfDay } from "./format.ts";
import { commandFor } from "./hints.ts";
import type { Hints } from "./hints.ts";
import { clip, rowsOf, span } from "./line.ts";
import type { Line, Tone } from "./line.ts";
import {
  figureWords,
  lagWords,
  remainingWords,
  routeWords,
  said,
  silenceWords,
  statusWords,
  troubleWords,
} from "./says.ts";
import { figuresOf, lagOf, shareOf } from "./sight.ts";
import type { Sight } from "./sight.ts";

const BAR_WIDTH = 24;

const MARKS: Readonly<Record<StepState, readonly [mark: string, tone: Tone]>> = {
  pending: ["·", "faint"],
  running: ["▶", "live"],
  done: ["✔", "good"],
  skipped: ["-", "faint"],
  failed: ["✘", "bad"],
  stopped: ["■", "warn"],
  undoing: ["↩", "warn"],
  undone: ["↩", "faint"],
};

/**
 * A move as a person in front of a terminal sees it: what moves where, what happens now, a line for each phase, what
 * is wrong, and the command for whoever must do something. Pure: the same sight makes the same lines.
 *
 * @param room size of the terminal. Lines for phases are cut to its width; all others are left whole, since a command
 *   that is cut cannot be pasted. Where it is too low, phases far from the current one are left out.
 */
export function frameOf(
  sight: Sight,
  hints: Hints,
  room: Room = { columns: Infinity, rows: Infinity },
): Line[] {
  const above = [...headline(sight), []];
  const below = [...(sight.state === undefined ? [] : [[]]), ...notices(sight), ...calls(sight, hints)];
  const taken = [...above, ...below].reduce((sum, line) => sum + rowsOf(line, room.columns), 0);
  const steps = around(stepLines(sight), currentIndex(sight), Math.max(1, room.rows - taken));
  return [...above, ...steps.map((line) => clip(line, room.columns)), ...below];
}

export interface Room {
  readonly columns: number;
  readonly rows: number;
}

/** At most `room` of the lines, with the one at `index` among them. */
function around(lines: readonly Line[], index: number, room: number): readonly Line[] {
  const first = Math.max(0, Math.min(index - Math.floor(room / 2), lines.length - room));
  return lines.slice(first, first + room);
}

function currentIndex({ state }: Sight): number {
  return Math.max(0, state?.steps.findIndex(({ name }) => name === state.phase) ?? 0);
}

function headline(sight: Sight): Line[] {
  const dry = sight.state?.dryRun === true ? " (dry run: nothing is changed)" : "";
  const elapsed = duration((sight.closedAt ?? sight.at) - sight.startedAt);
  return [
    [
      span(routeWords(sight), "strong"),
      span(`${dry}   ${elapsed}`),
      span(`   ${oneLine(sight.workflowId)}`, "faint"),
    ],
    [span(statusWords(sight), statusTone(sight))],
  ];
}

function statusTone({ state, outcome }: Sight): Tone {
  if (outcome !== undefined) return outcome.status === "completed" ? "good" : "bad";
  if (state === undefined || state.status === "running") return "live";
  return state.status === "needs attention" ? "bad" : "warn";
}

function stepLines(sight: Sight): Line[] {
  const { state } = sight;
  if (state === undefined) return [];
  const nameWidth = Math.max(...state.steps.map(({ name }) => name.length));
  return state.steps.map((step) => {
    const waits = state.waitingFor === step.name;
    const [mark, tone]: readonly [string, Tone] = waits ? ["⏸", "warn"] : MARKS[step.state];
    return [
      span(`${mark} `, tone),
      span(
        step.name.padEnd(nameWidth),
        step.state === "running" || waits ? "strong" : tone === "faint" ? "faint" : undefined,
      ),
      span(`  ${tookWords(sight, step).padStart(10)}  `),
      ...detail(sight, state, step),
    ];
  });
}

function tookWords(sight: Sight, { state, startedAt, endedAt }: StepProgress): string {
  if (startedAt === undefined || state === "skipped" || state === "pending") return "";
  const end = endedAt ?? sight.closedAt ?? sight.at;
  return duration(end - startedAt);
}

function detail(sight: Sight, state: MigrationState, step: StepProgress): Line {
  const figures = figuresOf(sight, step);
  const again = step.runs > 1 ? [span(`run ${step.runs}  `, "warn")] : [];
  if (step.state === "skipped") return [span("not needed", "faint")];
  if (step.state === "running" && figures !== undefined) return [...again, ...barLine(figures)];
  if (step.state !== "pending") {
    return [...again, span(figures === undefined ? oneLine(step.summary) : figureWords(figures), "faint")];
  }
  return [...marksOf(state, step), ...again, span(oneLine(step.summary), "faint")];
}

function barLine(figures: Figures): Line {
  const share = shareOf(figures);
  if (share === undefined) return [span(figureWords(figures))];
  const left = remainingWords(figures);
  return [
    span(bar(share, BAR_WIDTH), "live"),
    span(` ${percent(share).padStart(4)}  ${figureWords(figures)}${left === undefined ? "" : `, ${left}`}`),
  ];
}

/** What is special about a phase to come: its gate, and whether there is a way back from it. */
function marksOf(state: MigrationState, { name, pointOfNoReturn }: StepProgress): Line {
  const approval = state.approvals.find(({ gate }) => gate === name);
  const gate =
    approval !== undefined
      ? [span(`approved ${said(approval)} · `, "good")]
      : state.gates.includes(name) && !state.dryRun
        ? [span("gate, to be approved · ", "warn")]
        : [];
  return [...gate, ...(pointOfNoReturn ? [span("point of no return · ", "warn")] : [])];
}

function notices(sight: Sight): Line[] {
  const { state } = sight;
  const lines: Line[] = [];
  if (sight.silence !== undefined) {
    const { answeredAt } = sight;
    const stale = answeredAt === undefined ? "" : ` (what is shown is of ${timeOfDay(answeredAt)})`;
    lines.push([span("! ", "bad"), span(`${silenceWords(sight.silence)}${stale}`, "warn")]);
  }
  const lag = lagOf(sight);
  if (lag !== undefined && sight.outcome === undefined) lines.push([span(lagWords(sight, lag))]);
  for (const trouble of troubleWords(sight)) lines.push([span("! ", "warn"), span(trouble)]);
  if (state === undefined) return lines;
  if (state.comebacks > 0)
    lines.push([span(`came back ${state.comebacks} times from the point of no return`, "warn")]);
  if (state.abort !== undefined) lines.push([span(`abort asked ${said(state.abort)}`, "warn")]);
  if (state.cancellationIgnored !== undefined) {
    lines.push([span(`a cancellation was ignored: ${oneLine(state.cancellationIgnored)}`, "warn")]);
  }
  const { lastError } = state;
  // With these two the status itself gives the error.
  if (
    lastError !== undefined &&
    sight.outcome === undefined &&
    state.status !== "needs attention" &&
    state.status !== "retrying later"
  ) {
    lines.push([span(`error in ${lastError.phase}: `, "bad"), span(oneLine(lastError.message))]);
  }
  for (const fault of state.undoErrors) {
    lines.push([span(`undo of ${fault.phase} fails: `, "bad"), span(oneLine(fault.message))]);
  }
  return lines;
}

/** The commands that the move waits for, and the one that stops it. */
function calls(sight: Sight, hints: Hints): Line[] {
  const { state, workflowId, outcome } = sight;
  if (outcome !== undefined) return [call("what happened", commandFor(hints, "report", workflowId))];
  if (state === undefined || hasEnded(state)) return [];
  const by = ["--by", hints.by];
  const lines: Line[] = [];
  if (state.waitingFor !== undefined) {
    lines.push(
      call("approve", commandFor(hints, "approve", workflowId, "--gate", state.waitingFor, ...by), "strong"),
    );
  }
  if (state.status === "paused")
    lines.push(call("go on", commandFor(hints, "resume", workflowId, ...by), "strong"));
  if (state.status === "needs attention") {
    lines.push(call("once the cause is gone", commandFor(hints, "resume", workflowId, ...by), "strong"));
  }
  if (state.abortable) {
    lines.push(call("abort", commandFor(hints, "abort", workflowId, ...by, "--reason", "<why>")));
  } else if (state.notAbortableBecause !== undefined) {
    lines.push([span(`cannot be aborted: ${state.notAbortableBecause}`, "faint")]);
  }
  return lines;
}

function call(what: string, command: string, tone: Tone = "faint"): Line {
  return [span(`${what}: `), span(command, tone)];
}
