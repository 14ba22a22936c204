import { hasEnded, PREFLIGHT, stepOf } from "./state.ts";
import type { Figures, Lag, MigrationEvent, MigrationState, StepProgress, Word } from "./state.ts";

const CUTOVER_UNDER_WAY = "cutover under way, ask again if it comes back";
const COMMITTED = "the point of no return is behind: the move only goes forward from here";
const MAYBE_COMMITTED =
  "the point of no return may have taken effect: resume, so that it is run again and known";

/** The next state. Never changes the old one, imports nothing of Temporal, reads no clock. */
export function reduce(state: MigrationState, event: MigrationEvent): MigrationState {
  return withAbortability(apply(state, event));
}

type Rules = {
  readonly [T in MigrationEvent["type"]]: (
    state: MigrationState,
    event: Extract<MigrationEvent, { type: T }>,
  ) => MigrationState;
};

const RULES: Rules = {
  admitted: admit,
  "phase started": startPhase,
  "phase done": (state, { phase, committed, at }) => ({
    ...setStep(state, phase, { state: "done", endedAt: at }),
    ...(committed ? { committed, undo: [] } : {}),
  }),
  "phase skipped": (state, { phase, at }) =>
    setStep(state, phase, { state: "skipped", startedAt: at, endedAt: at }),
  "phase failed": (state, { phase, failure, message, at }) => ({
    ...setStep(state, phase, { state: "failed", endedAt: at }),
    lastError: { phase, type: failure, message, at },
  }),
  "phase stopped": (state, { phase, at }) => setStep(state, phase, { state: "stopped", endedAt: at }),
  "came back": comeBack,
  held: hold,
  "attention needed": (state, { phase }) => ({
    ...without(state, "waitingFor"),
    status: "needs attention",
    phase,
  }),
  approved: (state, event) => ({
    ...state,
    approvals: [...state.approvals, { gate: event.gate, ...word(event) }],
  }),
  "pause asked": (state, event) => ({ ...state, paused: word(event) }),
  resumed: (state, event) => ({ ...without(state, "paused"), resumes: [...state.resumes, word(event)] }),
  "abort asked": (state, event) => ({
    ...state,
    abort: { ...word(event), phase: state.phase, ...(event.native === true ? { native: true } : {}) },
  }),
  "cancellation ignored": (state, { why }) => ({ ...state, cancellationIgnored: why }),
  progressed: progress,
  "undo started": (state) => ({ ...without(state, "paused", "waitingFor"), status: "undoing" }),
  "undo step started": (state, { phase }) => ({
    ...setStep(without(state, "waitingFor"), phase, { state: "undoing" }),
    status: "undoing",
    phase,
  }),
  "undo step done": (state, { phase, at }) => ({
    ...setStep(state, phase, { state: "undone", endedAt: at }),
    undo: state.undo.filter((name) => name !== phase),
    undoErrors: state.undoErrors.filter((fault) => fault.phase !== phase),
  }),
  "undo step failed": (state, { phase, failure, message, at }) => ({
    ...state,
    undoErrors: [
      ...state.undoErrors.filter((fault) => fault.phase !== phase),
      { phase, type: failure, message, at },
    ],
  }),
  ended: (state, { status, at }) => ({ ...without(state, "paused", "waitingFor"), status, endedAt: at }),
};

function apply<T extends MigrationEvent["type"]>(
  state: MigrationState,
  event: Extract<MigrationEvent, { type: T }>,
): MigrationState {
  const rule: Rules[T] = RULES[event.type];
  return rule(state, event);
}

type Admission = Extract<MigrationEvent, { type: "admitted" }>;

function admit(state: MigrationState, { subject, source, destination, gates, dryRun, at }: Admission) {
  const done = setStep(state, PREFLIGHT, { state: "done", endedAt: at });
  return { ...done, admitted: true, subject, source, destination, gates: [...gates], dryRun };
}

type Start = Extract<MigrationEvent, { type: "phase started" }>;

function startPhase(state: MigrationState, { phase, undo, at }: Start): MigrationState {
  const runs = (stepOf(state, phase)?.runs ?? 0) + 1;
  const started = setStep(without(state, "waitingFor"), phase, { state: "running", startedAt: at, runs });
  const steps = started.steps.map((step) =>
    step.name === phase ? without(step, "endedAt", "figures") : step,
  );
  const recorded = undo && !state.undo.includes(phase) ? [...state.undo, phase] : state.undo;
  return { ...started, steps, status: "running", phase, undo: recorded };
}

/** The walk goes on from an earlier phase: that one and all after it are to do again; what they left stays to undo. */
function comeBack(state: MigrationState, { to }: { readonly to: string }): MigrationState {
  const from = state.steps.findIndex((step) => step.name === to);
  const steps = state.steps.map((step, index) =>
    index < from || from < 0 ? step : without({ ...step, state: "pending" as const }, "startedAt", "endedAt"),
  );
  return { ...state, steps, phase: to, comebacks: state.comebacks + 1 };
}

type Held = Extract<MigrationEvent, { type: "held" }>;

function hold(state: MigrationState, { status, phase }: Held): MigrationState {
  const held = { ...without(state, "waitingFor"), status, phase };
  return status === "waiting" ? { ...held, waitingFor: phase } : held;
}

type Progressed = Extract<MigrationEvent, { type: "progressed" }>;

function progress(state: MigrationState, event: Progressed): MigrationState {
  const { at, phase, done, total, unit, bytes, lagMs, lagRevisions } = event;
  const before = stepOf(state, phase)?.figures;
  const seconds = before === undefined ? 0 : (at - before.at) / 1000;
  const figures: Figures = {
    done,
    unit,
    at,
    ...(total === undefined ? {} : { total }),
    ...(bytes === undefined ? {} : { bytes }),
    ...(before === undefined || seconds <= 0 ? {} : { perSecond: Math.max(0, done - before.done) / seconds }),
  };
  const next = setStep(state, phase, { figures });
  if (lagMs === undefined && lagRevisions === undefined) return next;
  const lag: Lag = {
    at,
    ...(lagMs === undefined ? {} : { ms: lagMs }),
    ...(lagRevisions === undefined ? {} : { revisions: lagRevisions }),
  };
  return { ...next, lag };
}

function setStep(state: MigrationState, name: string, change: Partial<StepProgress>): MigrationState {
  return { ...state, steps: state.steps.map((step) => (step.name === name ? { ...step, ...change } : step)) };
}

function word(event: { by: string; at: number; reason?: string }): Word {
  const { by, at, reason } = event;
  return reason === undefined ? { by, at } : { by, at, reason };
}

/** A copy without some optional fields. They are left out, not set to `undefined`, so that a state survives JSON. */
function without<T extends object>(whole: T, ...keys: readonly (keyof T)[]): T {
  const copy = { ...whole };
  for (const key of keys) delete copy[key];
  return copy;
}

function withAbortability(state: MigrationState): MigrationState {
  const reason = whyNotAbortable(state);
  const rest = without(state, "notAbortableBecause");
  return reason === undefined
    ? { ...rest, abortable: true }
    : { ...rest, abortable: false, notAbortableBecause: reason };
}

function whyNotAbortable(state: MigrationState): string | undefined {
  if (hasEnded(state)) return `the move has ended: ${state.status}`;
  if (state.committed) return COMMITTED;
  const current = stepOf(state, state.phase);
  const undoing = state.status === "undoing" || current?.state === "undoing";
  if (undoing || state.abort !== undefined) return "the move is being undone already";
  if (state.status === "needs attention") return MAYBE_COMMITTED;
  if (state.dryRun) return undefined;
  if (current?.pointOfNoReturn !== true) return undefined;
  if (current.state === "running") return CUTOVER_UNDER_WAY;
  return undefined;
}
