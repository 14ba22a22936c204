import type {
  AbortInput,
  ApproveInput,
  PauseInput,
  ProgressedInput,
  ResumeInput,
} from "../../inputs/messages.ts";
import { hasEnded, stepOf } from "./state.ts";
import type { MigrationState } from "./state.ts";

/**
 * Why a message from outside is refused: pure functions that answer a reason, or nothing. They run in update
 * validators, so they are synchronous and change nothing. The shapes are those of `inputs/messages.ts`, written out
 * because the workflow bundle carries no schema library; a test proves that the two agree.
 */

const NAME_LIMIT = 200;
const TEXT_LIMIT = 1000;

type FieldKind = "name" | "text" | "count";
type Shape<T> = { readonly [K in keyof T]-?: readonly [kind: FieldKind, presence: "required" | "optional"] };

const APPROVE: Shape<ApproveInput> = {
  gate: ["name", "required"],
  by: ["name", "required"],
  reason: ["text", "optional"],
};
const PAUSE: Shape<PauseInput> = { by: ["name", "required"], reason: ["text", "optional"] };
const RESUME: Shape<ResumeInput> = { by: ["name", "required"] };
const ABORT: Shape<AbortInput> = { by: ["name", "required"], reason: ["text", "required"] };
const PROGRESSED: Shape<ProgressedInput> = {
  phase: ["name", "required"],
  done: ["count", "required"],
  total: ["count", "optional"],
  unit: ["name", "required"],
  bytes: ["count", "optional"],
  lagMs: ["count", "optional"],
  lagRevisions: ["count", "optional"],
};

const SHAPES = { approve: APPROVE, pause: PAUSE, resume: RESUME, abort: ABORT, progressed: PROGRESSED };
export type MessageName = keyof typeof SHAPES;

/** What is wrong with the shape of a message: the field, what it is, and how to write it. */
export function misshapen(name: MessageName, input: unknown): string | undefined {
  const shape: Readonly<Record<string, readonly [FieldKind, "required" | "optional"]>> = SHAPES[name];
  const example = Object.keys(shape).join(", ");
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    return `${name} takes one object with the fields ${example}; got ${shorten(input)}`;
  }
  for (const field of Object.keys(input)) {
    if (!Object.hasOwn(shape, field)) return `${name}: unknown field ${shorten(field)}; known are ${example}`;
  }
  for (const [field, [kind, presence]] of Object.entries(shape)) {
    const value = (input as Readonly<Record<string, unknown>>)[field];
    if (value === undefined && presence === "optional") continue;
    const wish = value === undefined ? "is missing" : misfit(kind, value);
    if (wish !== undefined) return `${name}: field ${field} ${wish}`;
  }
  return undefined;
}

function misfit(kind: FieldKind, value: unknown): string | undefined {
  if (kind === "count") {
    if (typeof value === "number" && Number.isFinite(value) && value >= 0) return undefined;
    return `is ${shorten(value)}; give a number that is not negative`;
  }
  const limit = kind === "name" ? NAME_LIMIT : TEXT_LIMIT;
  if (typeof value !== "string") return `is ${shorten(value)}; give a text`;
  const length = value.trim().length;
  if (length === 0) return "is empty; give a text";
  return length > limit ? `has ${length} characters; give at most ${limit}` : undefined;
}

function shorten(value: unknown): string {
  const text = JSON.stringify(value) ?? typeof value;
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

export function refuseApprove(state: MigrationState, gate: string): string | undefined {
  if (hasEnded(state)) return ended(state);
  if (state.status === "undoing" || state.abort !== undefined)
    return "the move is being undone: no gate is left";
  const step = stepOf(state, gate);
  const known = state.admitted ? state.gates : state.steps.slice(1).map(({ name }) => name);
  if (step === undefined || !known.includes(gate)) {
    const list = known.length === 0 ? "this move waits at no gate" : `its gates are ${known.join(", ")}`;
    return `no gate ${JSON.stringify(gate)}: ${list}`;
  }
  const before = state.approvals.find((approval) => approval.gate === gate);
  if (before !== undefined) return `gate ${gate} has been approved already, by ${before.by}`;
  return step.state === "pending" ? undefined : `gate ${gate} has been passed already`;
}

export function refusePause(state: MigrationState): string | undefined {
  if (hasEnded(state)) return ended(state);
  if (state.status === "undoing" || state.abort !== undefined)
    return "the move is being undone, which never pauses";
  if (state.status === "needs attention") return "the move stands still already: it needs attention";
  if (state.paused !== undefined) return `the move is paused already, by ${state.paused.by}`;
  const later = state.steps.some((step) => step.state === "pending" && step.pausable);
  return later
    ? undefined
    : `nothing is left to pause before: ${state.phase} and what follows run to the end`;
}

export function refuseResume(state: MigrationState): string | undefined {
  if (hasEnded(state)) return ended(state);
  if (state.paused !== undefined || state.status === "needs attention") return undefined;
  const hint = state.waitingFor === undefined ? "" : `: it waits for the approval of ${state.waitingFor}`;
  return `the move is not paused and needs no attention${hint}`;
}

export function refuseAbort(state: MigrationState): string | undefined {
  return state.abortable ? undefined : (state.notAbortableBecause ?? "the move cannot be aborted now");
}

/** Whether the figures belong to a phase of this move. Others are dropped: a late signal must not fail a move. */
export function isMisplaced(state: MigrationState, phase: string): boolean {
  return hasEnded(state) || stepOf(state, phase) === undefined;
}

function ended(state: MigrationState): string {
  return `the move has ended: ${state.status}`;
}
