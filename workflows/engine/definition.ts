import { failure } from "./failures.ts";
import type { Background, Phase } from "./phase.ts";
import { PREFLIGHT } from "./state.ts";
import type { MigrationState } from "./state.ts";
import type { Timeline } from "./timeline.ts";

/** What the preflight of a kind makes of a raw input. */
export interface Admitted<C> {
  /** Serialisable; the phases fill it. */
  readonly context: C;
  /** Names of phases before which the move waits for approval. */
  readonly gates: readonly string[];
  /** No gates, no point of no return, no undo; the kind uses activities that change nothing. */
  readonly dryRun: boolean;
  /** What is moved, from where, to where: shown, searched for, never parsed. */
  readonly subject: string;
  readonly source: string;
  readonly destination: string;
}

/** A kind of move: all that the runner needs to know about it. `R` is its report. */
export interface Definition<C, R> {
  /** The workflow type. */
  readonly kind: string;
  readonly phases: readonly Phase<C>[];
  readonly background?: Background<C>;
  /**
   * Validates the input and finds out whether the move is possible. Changes nothing, since nothing undoes it: a lock
   * is taken by a phase.
   *
   * @throws ApplicationFailure `InvalidInput` or `Refused`.
   */
  readonly preflight: (raw: unknown) => Promise<Admitted<C>>;
  /** The result of the workflow, when it completes. */
  readonly report: (context: C, timeline: Timeline) => R;
  /** The result of a dry run, where it is not the report. */
  readonly plan?: (context: C, timeline: Timeline) => R;
}

/** What a move takes along when its workflow continues as new: the second argument of every kind's workflow. */
export interface Carried<C> {
  readonly state: MigrationState;
  readonly context: C;
}

/**
 * Refuses definitions that the runner cannot keep its promises for. A mistake here is a defect of the code, so it is
 * a plain error: it fails the workflow task and not the move.
 */
export function checkDefinition<C, R>(definition: Definition<C, R>): void {
  const names = definition.phases.map((phase) => phase.name);
  const defect = (text: string): never => {
    throw new TypeError(`${definition.kind}: ${text}`);
  };
  if (new Set([PREFLIGHT, ...names]).size !== names.length + 1) defect("phase names are not unique");
  const commits = definition.phases.flatMap((phase, index) =>
    phase.pointOfNoReturn === true ? [index] : [],
  );
  if (commits.length > 1) defect("more than one point of no return");
  const commit = commits[0] ?? names.length;
  for (const [index, phase] of definition.phases.entries()) {
    if (phase.undo !== undefined && index > commit)
      defect(`${phase.name} comes after the point of no return`);
    const { comeback } = phase;
    if (comeback === undefined) continue;
    const to = names.indexOf(comeback.to);
    if (index !== commit || to < 0 || to > index) defect(`${phase.name} cannot come back to ${comeback.to}`);
  }
  const { background } = definition;
  if (background === undefined) return;
  const [from, until] = [names.indexOf(background.from), names.indexOf(background.until)];
  if (from < 0 || until <= from || until > commit) {
    defect(`no background from ${background.from} until ${background.until}`);
  }
}

/** @throws ApplicationFailure `InvalidInput` when a gate is not the name of a phase. */
export function checkGates<C, R>(definition: Definition<C, R>, gates: readonly string[]): void {
  const names = definition.phases.map((phase) => phase.name);
  const unknown = gates.filter((gate) => !names.includes(gate));
  if (unknown.length === 0) return;
  throw failure("InvalidInput", {
    message: `gates: ${unknown.map((gate) => JSON.stringify(gate)).join(", ")} is not a phase of ${definition.kind}`,
    advice: `use any of ${names.join(", ")}`,
  });
}
