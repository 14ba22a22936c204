import { reduce } from "../../../workflows/engine/reduce.ts";
import { initialState } from "../../../workflows/engine/state.ts";
import type { MigrationEvent, MigrationState } from "../../../workflows/engine/state.ts";
import type { Hints } from "../../../cli/view/hints.ts";
import type { Sight } from "../../../cli/view/sight.ts";

/** Moves as the engine's own reducer makes them, for the views to show. */

export const START = Date.UTC(2026, 0, 2, 3, 4, 5);
export const HINTS: Hints = { program: "npm run rehome --", connection: ["--namespace", "ops"], by: "ada" };

const PHASES = [
  { name: "Copy", summary: "Copy the cluster" },
  { name: "Verify", summary: "Prove both sides equal" },
  { name: "Cutover", summary: "Switch", pointOfNoReturn: true as const },
  { name: "Cleanup", summary: "Delete the rest" },
];

/** An event at so many ms after the start. */
export type Happening = MigrationEvent extends infer E ? (E extends unknown ? Omit<E, "at"> : never) : never;

export function stateAfter(
  ...happenings: readonly (readonly [atMs: number, happening: Happening])[]
): MigrationState {
  return happenings.reduce(
    (state, [atMs, happening]) => reduce(state, { ...happening, at: START + atMs }),
    initialState("logicalClusterMigration", PHASES, START),
  );
}

const admitted: Happening = {
  type: "admitted",
  subject: "root:team-a",
  source: "root",
  destination: "shard-1",
  gates: ["Cutover"],
  dryRun: false,
};

export const copying = [
  [100, admitted],
  [100, { type: "phase started", phase: "Copy", undo: true }],
] as const;

export const waiting = [
  ...copying,
  [2100, { type: "phase done", phase: "Copy", committed: false }],
  [2100, { type: "phase started", phase: "Verify", undo: false }],
  [2300, { type: "phase done", phase: "Verify", committed: false }],
  [2300, { type: "held", status: "waiting", phase: "Cutover" }],
] as const;

export function sightOf(state: MigrationState | undefined, atMs: number, rest: Partial<Sight> = {}): Sight {
  return {
    workflowId: "logicalClusterMigration/root:team-a",
    kind: "logicalClusterMigration",
    at: START + atMs,
    startedAt: START,
    work: [],
    indexed: {},
    ...(state === undefined ? {} : { state, answeredAt: START + atMs }),
    ...rest,
  };
}
