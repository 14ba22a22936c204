import type { Approval, MigrationState, StepState, Word } from "./state.ts";

export interface TimelineStep {
  readonly name: string;
  readonly state: StepState;
  /** ISO 8601, with ms. */
  readonly startedAt?: string;
  readonly endedAt?: string;
  /** Duration of its last run. */
  readonly ms?: number;
  readonly runs: number;
}

/** What a report says about when things happened and who had them happen. Serialisable. */
export interface Timeline {
  readonly startedAt: string;
  readonly endedAt: string;
  readonly ms: number;
  readonly steps: readonly TimelineStep[];
  readonly approvals: readonly Approval[];
  readonly resumes: readonly Word[];
  readonly abort?: Word;
  /** How often the move came back from its point of no return to try again later. */
  readonly comebacks: number;
}

/** The timeline of a state as of `at` (ms since the epoch). */
export function timelineOf(state: MigrationState, at: number): Timeline {
  const endedAt = state.endedAt ?? at;
  return {
    startedAt: iso(state.startedAt),
    endedAt: iso(endedAt),
    ms: endedAt - state.startedAt,
    steps: state.steps.map(({ name, state: step, startedAt, endedAt: end, runs }) => ({
      name,
      state: step,
      runs,
      ...(startedAt === undefined ? {} : { startedAt: iso(startedAt) }),
      ...(end === undefined ? {} : { endedAt: iso(end) }),
      ...(startedAt === undefined || end === undefined ? {} : { ms: end - startedAt }),
    })),
    approvals: state.approvals,
    resumes: state.resumes,
    ...(state.abort === undefined ? {} : { abort: state.abort }),
    comebacks: state.comebacks,
  };
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
