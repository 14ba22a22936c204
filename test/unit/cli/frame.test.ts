import { describe, expect, test } from "vitest";
import { frameOf } from "../../../cli/view/frame.ts";
import { plain } from "../../../cli/view/line.ts";
import type { Sight } from "../../../cli/view/sight.ts";
import { copying, HINTS, sightOf, START, stateAfter, waiting } from "./sights.ts";

function text(sight: Sight, room?: Parameters<typeof frameOf>[2]): string {
  return frameOf(sight, HINTS, room).map(plain).join("\n");
}

const figures = {
  done: 2600,
  total: 5000,
  unit: "keys",
  bytes: 1_500_000,
  perSecond: 1200,
  at: START + 1500,
};

describe("the frame", () => {
  test("shows what moves where, the phase at work with a bar, and the way to abort", () => {
    const work = [
      {
        name: "copySnapshot",
        state: "runs",
        attempt: 1,
        scheduledAt: START,
        figures: { ...figures, lagMs: 120 },
      },
    ] as const;
    expect(text(sightOf(stateAfter(...copying), 2000, { work }))).toMatchInlineSnapshot(`
      "root:team-a: root → shard-1   2.0 s   logicalClusterMigration/root:team-a
      step 2 of 5, Copy: Copy the cluster

      ✔ Preflight      100 ms  Check that the move is possible
      ▶ Copy            1.9 s  ████████████░░░░░░░░░░░░  52%  2,600 of 5,000 keys, 1.5 MB, 1,200/s, 2.0 s left
      · Verify                 Prove both sides equal
      · Cutover                gate, to be approved · point of no return · Switch
      · Cleanup                Delete the rest

      shard-1 is 120 ms behind
      abort: npm run rehome -- abort logicalClusterMigration/root:team-a --by ada --reason '<why>' --namespace ops"
    `);
  });

  test("shows the gate, with the command that can be pasted", () => {
    expect(text(sightOf(stateAfter(...waiting), 9000))).toMatchInlineSnapshot(`
      "root:team-a: root → shard-1   9.0 s   logicalClusterMigration/root:team-a
      waits for approval before Cutover

      ✔ Preflight      100 ms  Check that the move is possible
      ✔ Copy            2.0 s  Copy the cluster
      ✔ Verify         200 ms  Prove both sides equal
      ⏸ Cutover                gate, to be approved · point of no return · Switch
      · Cleanup                Delete the rest

      approve: npm run rehome -- approve logicalClusterMigration/root:team-a --gate Cutover --by ada --namespace ops
      abort: npm run rehome -- abort logicalClusterMigration/root:team-a --by ada --reason '<why>' --namespace ops"
    `);
  });

  test("says that nothing can be aborted any more, and what needs attention", () => {
    const state = stateAfter(
      ...waiting,
      [3000, { type: "approved", gate: "Cutover", by: "grace", reason: "night window" }],
      [3000, { type: "phase started", phase: "Cutover", undo: false }],
      [3100, { type: "phase done", phase: "Cutover", committed: true }],
      [3100, { type: "phase started", phase: "Cleanup", undo: false }],
      [
        3200,
        { type: "phase failed", phase: "Cleanup", failure: "Unreachable", message: "etcd of root is gone" },
      ],
      [3200, { type: "attention needed", phase: "Cleanup" }],
    );
    expect(text(sightOf(state, 4000))).toMatchInlineSnapshot(`
      "root:team-a: root → shard-1   4.0 s   logicalClusterMigration/root:team-a
      needs attention in Cleanup: etcd of root is gone

      ✔ Preflight      100 ms  Check that the move is possible
      ✔ Copy            2.0 s  Copy the cluster
      ✔ Verify         200 ms  Prove both sides equal
      ✔ Cutover        100 ms  Switch
      ✘ Cleanup        100 ms  Delete the rest

      once the cause is gone: npm run rehome -- resume logicalClusterMigration/root:team-a --by ada --namespace ops
      cannot be aborted: the point of no return is behind: the move only goes forward from here"
    `);
  });

  test("says that it is the undo that needs attention, and why", () => {
    const state = stateAfter(
      ...copying,
      [3000, { type: "abort asked", by: "grace", reason: "wrong shard" }],
      [3000, { type: "phase stopped", phase: "Copy" }],
      [3000, { type: "undo started" }],
      [3000, { type: "undo step started", phase: "Copy" }],
      [
        3100,
        { type: "undo step failed", phase: "Copy", failure: "Unreachable", message: "etcd of root is gone" },
      ],
      [3100, { type: "attention needed", phase: "Copy" }],
    );
    expect(text(sightOf(state, 4000))).toContain("needs attention in the undo of Copy: etcd of root is gone");
  });

  test("goes on showing what was known when nobody answers, and says of when it is", () => {
    const silence = { since: START + 3000, who: "worker", why: "no answer in time" } as const;
    const shown = text(sightOf(stateAfter(...copying), 8000, { silence, answeredAt: START + 2500 }));
    expect(shown).toContain("▶ Copy");
    expect(shown).toMatch(
      /! no worker answers \(no answer in time\); .*npm run worker .*\(what is shown is of \d\d:\d\d:\d\d\)/,
    );
  });

  test("shows what the index knows when no worker has ever answered", () => {
    const indexed = { phase: "Tail", subject: "root:team-a", source: "root", destination: "shard-1" };
    const silence = { since: START, who: "worker", why: "no answer in time" } as const;
    expect(text(sightOf(undefined, 5000, { indexed, silence }))).toMatch(
      /^root:team-a: root → shard-1.*\nlast seen in Tail\n/,
    );
  });

  test("names an activity that is tried again, and one that no worker takes up", () => {
    const work = [
      {
        name: "copySnapshot",
        state: "will be tried again",
        attempt: 4,
        scheduledAt: START,
        lastFailure: "Unreachable: etcd",
      },
      { name: "verify", state: "waits for a worker", attempt: 1, scheduledAt: START },
    ] as const;
    const shown = text(sightOf(stateAfter(...copying), 8000, { work }));
    expect(shown).toContain(
      "copySnapshot will be tried again (attempt 4); the last one failed: Unreachable: etcd",
    );
    expect(shown).toContain("verify has waited 8.0 s for a worker");
  });

  test("leaves out far phases where the terminal is low, and cuts only their lines", () => {
    const sight = sightOf(stateAfter(...waiting), 9000);
    const shown = text(sight, { columns: 50, rows: 11 }).split("\n");
    expect(shown.some((line) => line.includes("Cutover") && line.startsWith("⏸"))).toBe(true);
    expect(shown.some((line) => line.includes("Preflight"))).toBe(false);
    expect(shown).toContain(
      "approve: npm run rehome -- approve logicalClusterMigration/root:team-a --gate Cutover --by ada --namespace ops",
    );
  });

  test("lets no text from outside move the cursor", () => {
    const evil = "\u001B[2Jgone\n\u202Eover";
    const state = stateAfter(...copying, [500, { type: "pause asked", by: evil, reason: evil }]);
    const shown = text(sightOf(state, 900, { outcome: { status: "failed", message: evil } }));
    expect(shown).toContain("gone over");
    expect(shown).not.toContain("\u001B");
    expect(shown).not.toContain("\u202E");
  });
});

function works(...all: readonly Sight["work"][number]["figures"][]): Sight["work"] {
  return all.map((one) => ({
    name: "x",
    state: "runs",
    attempt: 1,
    scheduledAt: START,
    ...(one && { figures: one }),
  }));
}

describe("figures", () => {
  const state = stateAfter(...copying);
  const part = { done: 100, total: 1000, unit: "keys", at: START + 900 };
  test("of activities that share a phase are added up", () => {
    const work = works({ ...part, phase: "Copy" }, { ...part, phase: "Copy", done: 400 });
    expect(text(sightOf(state, 1000, { work }))).toContain("25%  500 of 2,000 keys");
  });

  test("of background work are not taken for those of the phase that runs", () => {
    const work = works(
      { ...part, phase: "Copy" },
      { phase: "Tail", done: 7, unit: "changes", lagMs: 40, at: START + 900 },
    );
    const shown = text(sightOf(state, 1000, { work }));
    expect(shown).toContain("10%  100 of 1,000 keys");
    expect(shown).toContain("shard-1 is 40 ms behind");
  });

  test("that the move itself has told are taken when they are newer", () => {
    const newer = stateAfter(...copying, [
      1500,
      { type: "progressed", phase: "Copy", done: 900, total: 1000, unit: "keys" },
    ]);
    expect(text(sightOf(newer, 1600, { work: works(part) }))).toContain("90%  900 of 1,000 keys");
  });
});
