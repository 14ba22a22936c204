import { describe, expect, test } from "vitest";
import { ChangeLog } from "../../../cli/view/changes.ts";
import { copying, HINTS, sightOf, START, stateAfter, waiting } from "./sights.ts";

const log = (): ChangeLog => new ChangeLog(HINTS);

describe("the change log", () => {
  test("tells what has happened between two looks in its order, with the time of each", () => {
    const changes = log();
    expect(changes.linesFor(sightOf(stateAfter(), 0))).toEqual([
      "2026-01-02T03:04:05.000Z Preflight started: Check that the move is possible",
    ]);
    expect(changes.linesFor(sightOf(stateAfter(...waiting), 2400))).toMatchInlineSnapshot(`
      [
        "2026-01-02T03:04:05.100Z Preflight done after 100 ms",
        "2026-01-02T03:04:05.100Z moves root:team-a: root → shard-1; gates: Cutover",
        "2026-01-02T03:04:07.100Z Copy done after 2.0 s",
        "2026-01-02T03:04:07.300Z Verify done after 200 ms",
        "2026-01-02T03:04:07.400Z waits for approval before Cutover: npm run rehome -- approve logicalClusterMigration/root:team-a --gate Cutover --by ada --namespace ops",
      ]
    `);
  });

  test("says nothing when nothing has changed", () => {
    const changes = log();
    changes.linesFor(sightOf(stateAfter(...waiting), 2400));
    expect(changes.linesFor(sightOf(stateAfter(...waiting), 60_000))).toEqual([]);
  });

  test("tells who said what, and how it ended", () => {
    const changes = log();
    changes.linesFor(sightOf(stateAfter(...waiting), 2400));
    const state = stateAfter(
      ...waiting,
      [3000, { type: "abort asked", by: "grace", reason: "wrong shard" }],
      [3000, { type: "undo started" }],
      [3000, { type: "undo step started", phase: "Copy" }],
      [3400, { type: "undo step done", phase: "Copy" }],
      [3400, { type: "ended", status: "aborted" }],
    );
    const outcome = { status: "aborted", message: "aborted by grace: wrong shard" } as const;
    expect(changes.linesFor(sightOf(state, 3600, { outcome, closedAt: START + 3500 })))
      .toMatchInlineSnapshot(`
      [
        "2026-01-02T03:04:08.000Z abort asked by grace (wrong shard)",
        "2026-01-02T03:04:08.400Z Copy is undone",
        "2026-01-02T03:04:08.500Z aborted after 3.5 s: aborted by grace: wrong shard; what happened: npm run rehome -- report logicalClusterMigration/root:team-a --namespace ops",
      ]
    `);
  });

  test("tells figures now and then, and only when they have changed", () => {
    const changes = log();
    const at = (ms: number, done: number): string[] => {
      const figures = { phase: "Copy", done, total: 1000, unit: "keys", at: START + ms };
      const work = [{ name: "copy", state: "runs", attempt: 1, scheduledAt: START, figures }] as const;
      return changes.linesFor(sightOf(stateAfter(...copying), ms, { work }));
    };
    expect(at(1000, 100).at(-1)).toContain("Copy: 10%, 100 of 1,000 keys");
    expect(at(2000, 200)).toEqual([]);
    expect(at(7000, 300)).toEqual(["2026-01-02T03:04:12.000Z Copy: 30%, 300 of 1,000 keys"]);
    expect(at(13_000, 300)).toEqual([]);
    expect(at(600_000, 400)).toHaveLength(1);
    expect(at(650_000, 500)).toEqual([]);
  });

  test("tells once that nobody answers, and once that somebody does again", () => {
    const changes = log();
    const state = stateAfter(...copying);
    const silence = { since: START + 1000, who: "worker", why: "no answer in time" } as const;
    changes.linesFor(sightOf(state, 500));
    expect(changes.linesFor(sightOf(state, 1000, { silence }))).toHaveLength(1);
    expect(changes.linesFor(sightOf(state, 2000, { silence }))).toEqual([]);
    expect(changes.linesFor(sightOf(state, 3000))).toEqual(["2026-01-02T03:04:08.000Z worker answers again"]);
  });

  test("tells of a phase that is done again after a comeback", () => {
    const changes = log();
    const before = stateAfter(...waiting, [2500, { type: "phase started", phase: "Cutover", undo: true }]);
    changes.linesFor(sightOf(before, 2600));
    const state = stateAfter(
      ...waiting,
      [2500, { type: "phase started", phase: "Cutover", undo: true }],
      [2700, { type: "phase failed", phase: "Cutover", failure: "FenceBudgetExceeded", message: "too slow" }],
      [2700, { type: "came back", to: "Verify" }],
      [2700, { type: "held", status: "retrying later", phase: "Verify" }],
    );
    const told = changes.linesFor(sightOf(state, 2800)).join("\n");
    expect(told).toContain("error in Cutover: too slow");
    expect(told).toContain("came back to Verify, and tries again in a moment");
  });
});
