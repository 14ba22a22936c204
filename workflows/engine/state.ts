/**
 * What a move looks like from outside. Pure: imports nothing, reads no clock. All times are ms since the epoch. The
 * whole state is serialisable; it is what the query `progress` answers. `reduce.ts` says how events change it.
 */

export type StepState =
  | "pending"
  | "running"
  | "done"
  | "skipped"
  | "failed"
  | "stopped"
  | "undoing"
  | "undone";

export interface StepProgress {
  readonly name: string;
  readonly summary: string;
  readonly state: StepState;
  readonly pausable: boolean;
  readonly pointOfNoReturn: boolean;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** How often it was started. More than one after a comeback or a resume. */
  readonly runs: number;
  /** What its activities have last said. */
  readonly figures?: Figures;
}

/** A word spoken by a person. */
export interface Word {
  readonly by: string;
  readonly at: number;
  readonly reason?: string;
}

export interface Approval extends Word {
  readonly gate: string;
}

export interface Figures {
  readonly done: number;
  readonly total?: number;
  /** What `done` and `total` count: keys, pages, objects. */
  readonly unit: string;
  readonly bytes?: number;
  /** Units per second since the figures before these. */
  readonly perSecond?: number;
  readonly at: number;
}

/** How far the destination is behind the source. */
export interface Lag {
  readonly ms?: number;
  readonly revisions?: number;
  readonly at: number;
}

export interface Fault {
  readonly phase: string;
  /** Closed set, see `failures.ts`. */
  readonly type: string;
  /** In plain words. */
  readonly message: string;
  readonly at: number;
}

/**
 * - `running`: a phase is at work.
 * - `waiting`: for the approval in `waitingFor`.
 * - `paused`: by the person in `paused`.
 * - `retrying later`: came back from the point of no return, waits before walking on.
 * - `undoing`: restores the source.
 * - `needs attention`: a phase after the point of no return, or an undo, failed; waits for `resume`.
 * - the rest: ended.
 */
export type Status =
  | "running"
  | "waiting"
  | "paused"
  | "retrying later"
  | "undoing"
  | "needs attention"
  | "completed"
  | "failed"
  | "aborted"
  | "cancelled";

export interface MigrationState {
  readonly kind: string;
  readonly subject: string;
  readonly source: string;
  readonly destination: string;
  readonly dryRun: boolean;
  readonly status: Status;
  /** Name of the phase that runs, is waited for, or ran last. */
  readonly phase: string;
  readonly steps: readonly StepProgress[];
  /** Whether the input has been accepted; before that, gates and sites are not known. */
  readonly admitted: boolean;
  readonly gates: readonly string[];
  readonly approvals: readonly Approval[];
  readonly waitingFor?: string;
  readonly paused?: Word;
  readonly resumes: readonly Word[];
  /** `native`: asked for by cancelling the workflow, not by the update `abort`. */
  readonly abort?: Word & { readonly phase: string; readonly native?: true };
  /** The point of no return is behind. */
  readonly committed: boolean;
  readonly abortable: boolean;
  readonly notAbortableBecause?: string;
  /** A cancellation of the workflow that came too late. */
  readonly cancellationIgnored?: string;
  readonly lag?: Lag;
  readonly lastError?: Fault;
  /** Errors of undo steps, the latest of each step. */
  readonly undoErrors: readonly Fault[];
  /** Names of phases to undo, in the order in which they were started. */
  readonly undo: readonly string[];
  readonly comebacks: number;
  readonly startedAt: number;
  readonly endedAt?: number;
}

/** The undo that has failed and is tried again after a while; nothing when it is a phase that has failed. */
export function failedUndo({ steps, phase, undoErrors }: MigrationState): Fault | undefined {
  const isUndoing = steps.some(({ name, state }) => name === phase && state === "undoing");
  return isUndoing ? undoErrors.find((fault) => fault.phase === phase) : undefined;
}

export type MigrationEvent = { readonly at: number } & (
  | {
      readonly type: "admitted";
      readonly subject: string;
      readonly source: string;
      readonly destination: string;
      readonly gates: readonly string[];
      readonly dryRun: boolean;
    }
  | { readonly type: "phase started"; readonly phase: string; readonly undo: boolean }
  | { readonly type: "phase done"; readonly phase: string; readonly committed: boolean }
  | { readonly type: "phase skipped"; readonly phase: string }
  | {
      readonly type: "phase failed";
      readonly phase: string;
      readonly failure: string;
      readonly message: string;
    }
  | { readonly type: "phase stopped"; readonly phase: string }
  | { readonly type: "came back"; readonly to: string }
  | {
      readonly type: "held";
      readonly status: "waiting" | "paused" | "retrying later";
      readonly phase: string;
    }
  | { readonly type: "attention needed"; readonly phase: string }
  | { readonly type: "approved"; readonly gate: string; readonly by: string; readonly reason?: string }
  | { readonly type: "pause asked"; readonly by: string; readonly reason?: string }
  | { readonly type: "resumed"; readonly by: string }
  | { readonly type: "abort asked"; readonly by: string; readonly reason: string; readonly native?: true }
  | { readonly type: "cancellation ignored"; readonly why: string }
  | {
      readonly type: "progressed";
      readonly phase: string;
      readonly done: number;
      readonly total?: number | undefined;
      readonly unit: string;
      readonly bytes?: number | undefined;
      readonly lagMs?: number | undefined;
      readonly lagRevisions?: number | undefined;
    }
  | { readonly type: "undo started" }
  | { readonly type: "undo step started"; readonly phase: string }
  | { readonly type: "undo step done"; readonly phase: string }
  | {
      readonly type: "undo step failed";
      readonly phase: string;
      readonly failure: string;
      readonly message: string;
    }
  | { readonly type: "ended"; readonly status: "completed" | "failed" | "aborted" | "cancelled" }
);

/** What a kind says about a phase before it runs. */
export interface PhaseOutline {
  readonly name: string;
  readonly summary: string;
  readonly pointOfNoReturn?: true;
  readonly pausable?: false;
}

export const PREFLIGHT = "Preflight";
const ENDED: ReadonlySet<Status> = new Set<Status>(["completed", "failed", "aborted", "cancelled"]);

export function hasEnded(state: MigrationState): boolean {
  return ENDED.has(state.status);
}

/** State of a move that has just been started: `Preflight` runs, all else is pending. */
export function initialState(kind: string, phases: readonly PhaseOutline[], at: number): MigrationState {
  const pending = phases.map((phase): StepProgress => ({
    name: phase.name,
    summary: phase.summary,
    state: "pending",
    pausable: phase.pausable !== false,
    pointOfNoReturn: phase.pointOfNoReturn === true,
    runs: 0,
  }));
  return {
    kind,
    subject: "",
    source: "",
    destination: "",
    dryRun: false,
    status: "running",
    phase: PREFLIGHT,
    steps: [
      {
        name: PREFLIGHT,
        summary: "Check that the move is possible",
        state: "running",
        pausable: false,
        pointOfNoReturn: false,
        startedAt: at,
        runs: 1,
      },
      ...pending,
    ],
    admitted: false,
    gates: [],
    approvals: [],
    resumes: [],
    committed: false,
    abortable: true,
    undoErrors: [],
    undo: [],
    comebacks: 0,
    startedAt: at,
  };
}

export function stepOf(state: MigrationState, name: string): StepProgress | undefined {
  return state.steps.find((step) => step.name === name);
}
