import { stepOf } from "../../workflows/engine/state.ts";
import type { Figures, Lag, MigrationState, StepProgress } from "../../workflows/engine/state.ts";

/** What an activity that runs has last told with its heartbeat. */
export interface LiveFigures {
  /** Phase that they belong to; the one that runs when left out. */
  readonly phase?: string;
  readonly done?: number;
  readonly total?: number;
  readonly unit?: string;
  readonly bytes?: number;
  readonly perSecond?: number;
  readonly lagMs?: number;
  readonly lagRevisions?: number;
  /** When it told so, ms since the epoch. */
  readonly at: number;
}

/** An activity that is not done yet. */
export interface Work {
  readonly name: string;
  readonly state: "waits for a worker" | "runs" | "will be tried again";
  /** 1 for the first. */
  readonly attempt: number;
  readonly scheduledAt: number;
  /** How the attempt before this one failed, in plain words. */
  readonly lastFailure?: string;
  readonly figures?: LiveFigures;
}

/** How a move ended. */
export type Outcome =
  | { readonly status: "completed"; readonly result: unknown }
  | {
      readonly status: "failed" | "aborted" | "cancelled" | "terminated" | "timed out";
      /** A `FailureType`, where the move itself said how it failed. */
      readonly type?: string;
      /** In plain words. */
      readonly message: string;
      /** `EndDetails` of the engine, where the move itself said how it failed. */
      readonly details?: unknown;
    };

/** Why there is no fresh answer. What was known before is still shown. */
export interface Silence {
  readonly since: number;
  readonly who: "worker" | "Temporal";
  /** In plain words. */
  readonly why: string;
}

/** What search attributes say, also when no worker answers. */
export interface Indexed {
  readonly phase?: string;
  readonly subject?: string;
  readonly source?: string;
  readonly destination?: string;
}

/** What is known of a move at one moment. All times are ms since the epoch. */
export interface Sight {
  readonly workflowId: string;
  /** The workflow type. */
  readonly kind: string;
  readonly at: number;
  readonly startedAt: number;
  readonly closedAt?: number;
  /** What the move last answered. */
  readonly state?: MigrationState;
  readonly answeredAt?: number;
  readonly silence?: Silence;
  readonly work: readonly Work[];
  readonly indexed: Indexed;
  readonly outcome?: Outcome;
}

/** Figures of a step: what its activities told by heartbeat when that is newer than what the move knows. */
export function figuresOf(sight: Sight, step: StepProgress): Figures | undefined {
  const live = liveFigures(sight, step);
  if (live === undefined) return step.figures;
  return step.figures !== undefined && step.figures.at > live.at ? step.figures : live;
}

/** Background work goes on beside the phase that runs, so figures that name no phase are only taken when one tells any. */
function belongs(sight: Sight, { phase }: LiveFigures, step: StepProgress): boolean {
  if (phase !== undefined) return phase === step.name;
  const telling = sight.work.filter(({ figures }) => figures?.done !== undefined);
  return step.state === "running" && telling.length === 1;
}

/** The sum over the activities that work on a phase at once, each on a part of it. */
function liveFigures(sight: Sight, step: StepProgress): Figures | undefined {
  const parts = sight.work.flatMap(({ figures }) =>
    figures !== undefined && belongs(sight, figures, step) ? [figures] : [],
  );
  const [first] = parts.filter(({ done }) => done !== undefined);
  if (first === undefined) return undefined;
  const unit = first.unit ?? "";
  const counted = parts.filter((part) => part.done !== undefined && (part.unit ?? "") === unit);
  const total = sum(counted.map((part) => part.total));
  const bytes = sum(counted.map((part) => part.bytes));
  const perSecond = sum(counted.map((part) => part.perSecond));
  return {
    done: sum(counted.map(({ done }) => done)) ?? 0,
    unit,
    at: Math.max(...counted.map(({ at }) => at)),
    ...(total === undefined ? {} : { total }),
    ...(bytes === undefined ? {} : { bytes }),
    ...(perSecond === undefined ? {} : { perSecond }),
  };
}

/** Undefined as soon as one of them is. */
function sum(values: readonly (number | undefined)[]): number | undefined {
  let total = 0;
  for (const value of values) {
    if (value === undefined) return undefined;
    total += value;
  }
  return total;
}

/** How far the destination is behind, as last told by anyone. */
export function lagOf({ state, work }: Sight): Lag | undefined {
  let latest = state?.lag;
  for (const { figures } of work) {
    if (figures === undefined || (figures.lagMs === undefined && figures.lagRevisions === undefined))
      continue;
    if (latest !== undefined && latest.at > figures.at) continue;
    latest = {
      at: figures.at,
      ...(figures.lagMs === undefined ? {} : { ms: figures.lagMs }),
      ...(figures.lagRevisions === undefined ? {} : { revisions: figures.lagRevisions }),
    };
  }
  return latest;
}

export function shareOf(figures: Figures | undefined): number | undefined {
  if (figures?.total === undefined || figures.total <= 0) return undefined;
  return Math.min(1, figures.done / figures.total);
}

/** What moves where, as far as known. */
export function routeOf({ state, indexed, workflowId }: Sight): {
  subject: string;
  source?: string;
  destination?: string;
} {
  if (state?.admitted === true) {
    return { subject: state.subject, source: state.source, destination: state.destination };
  }
  const { subject = workflowId, source, destination } = indexed;
  return {
    subject,
    ...(source === undefined ? {} : { source }),
    ...(destination === undefined ? {} : { destination }),
  };
}

/** The step that is being worked on, waited before, or was worked on last. */
export function currentStep({ state }: Sight): StepProgress | undefined {
  return state === undefined ? undefined : stepOf(state, state.phase);
}
