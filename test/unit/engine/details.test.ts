import { describe, expect, test } from "vitest";
import { renderDetails } from "../../../workflows/engine/details.ts";
import { reduce } from "../../../workflows/engine/reduce.ts";
import { initialState } from "../../../workflows/engine/state.ts";
import type { MigrationEvent, MigrationState } from "../../../workflows/engine/state.ts";

function state(...events: readonly MigrationEvent[]): MigrationState {
  const outline = [
    { name: "Copy", summary: "Copy | the cluster" },
    { name: "Cutover", summary: "Switch", pointOfNoReturn: true as const },
  ];
  const admitted: MigrationEvent = {
    type: "admitted",
    at: 1500,
    subject: "root:team (2x8f)",
    source: "shard-0",
    destination: "shard-1",
    gates: ["Cutover"],
    dryRun: false,
  };
  return [admitted, ...events].reduce(reduce, initialState("logicalClusterMigration", outline, 1000));
}

const waiting: readonly MigrationEvent[] = [
  { type: "phase started", at: 2000, phase: "Copy", undo: true },
  { type: "progressed", at: 2500, phase: "Copy", done: 40, total: 100, unit: "keys", lagMs: 12 },
  { type: "phase done", at: 3250, phase: "Copy", committed: false },
  { type: "held", at: 3300, status: "waiting", phase: "Cutover" },
];

describe("the details in the UI", () => {
  test("say what moves where, how far it is, and how to approve and to abort", () => {
    const text = renderDetails(state(...waiting), "move-1");
    expect(text).toContain("**logicalClusterMigration**: root:team (2x8f), shard-0 → shard-1");
    expect(text).toContain("| Copy | done | 1250 ms |  | 40 of 100 keys | Copy \\| the cluster |");
    expect(text).toContain("| Cutover | pending |  | to approve |");
    expect(text).toContain("Destination behind by 12 ms.");
    expect(text).toContain(
      `temporal workflow update execute --workflow-id move-1 --name approve --input '{"gate":"Cutover","by":"<you>"}'`,
    );
    expect(text).toContain(
      "Can be aborted: `temporal workflow update execute --workflow-id move-1 --name abort",
    );
  });

  test("say why it cannot be aborted, and what needs attention", () => {
    const text = renderDetails(
      state(
        { type: "phase started", at: 1, phase: "Cutover", undo: true },
        { type: "phase done", at: 2, phase: "Cutover", committed: true },
        { type: "phase failed", at: 3, phase: "Cutover", failure: "Refused", message: "a*b" },
        { type: "attention needed", at: 4, phase: "Cutover" },
      ),
      "move-1",
    );
    expect(text).toContain("Cannot be aborted: the point of no return is behind");
    expect(text).toContain("**Needs attention.** When the cause is gone, have Cutover run again");
    expect(text).toContain("Last error, in Cutover: a\\*b");
  });

  test("say that it is the undo that needs attention, which is tried again by itself", () => {
    const text = renderDetails(
      state(
        { type: "phase started", at: 1, phase: "Copy", undo: true },
        { type: "abort asked", at: 2, by: "ada", reason: "late" },
        { type: "phase stopped", at: 3, phase: "Copy" },
        { type: "undo started", at: 3 },
        { type: "undo step started", at: 3, phase: "Copy" },
        { type: "undo step failed", at: 4, phase: "Copy", failure: "Unreachable", message: "etcd is gone" },
        { type: "attention needed", at: 4, phase: "Copy" },
      ),
      "move-1",
    );
    expect(text).toContain("**Needs attention.** The undo of Copy is tried again by itself");
    expect(text).toContain("Undo of Copy failed: etcd is gone");
    expect(text).not.toContain("have Copy run again");
  });

  test("cannot be made to say something else by those who speak", () => {
    const evil = "x` **done** | <img>\n\n# all is well";
    const text = renderDetails(state({ type: "pause asked", at: 5, by: evil }), "it's `me`");
    expect(text).not.toContain("\n# all");
    expect(text).toContain("x\\` \\*\\*done\\*\\* \\| \\<img\\> \\# all is well");
    expect(text).toContain(`--workflow-id 'it'\\''s me'`);
  });

  test("are short before the input is known", () => {
    const text = renderDetails(initialState("parcelMigration", [], 0), "m");
    expect(text).toContain("**parcelMigration**: checking the input");
  });
});
