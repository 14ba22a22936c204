import { describe, expect, test } from "vitest";
import { failureLines, reportLines } from "../../../cli/view/report.ts";
import { timelineOf } from "../../../workflows/engine/timeline.ts";
import { START, stateAfter, waiting } from "./sights.ts";

describe("a report", () => {
  test("has units, sections and tables whatever its shape", () => {
    const result = {
      kind: "logicalClusterMigration",
      path: "root:team-a",
      verified: true,
      keys: 5234,
      bytes: 3_456_789,
      outage: { totalMs: 212, drainMs: 31 },
      phases: [{ name: "Copy", ms: 61_000 }],
      switched: { switchedAt: START, position: "1000123" },
      leftInPlace: ["bound CRD 4f1c"],
      warnings: [],
    };
    expect(reportLines(result, "It was moved.").join("\n")).toMatchInlineSnapshot(`
      "It was moved.

      path      root:team-a
      verified  yes
      keys      5,234
      bytes     3.5 MB

      outage
        total  212 ms
        drain  31 ms

      phases
        name  took
        Copy  1 min 01 s

      switched
        switched at  2026-01-02T03:04:05.000Z
        position     1000123

      left in place
        - bound CRD 4f1c

      warnings: none"
    `);
  });

  test("of a plan leaves out what only a move can tell", () => {
    const result = {
      dryRun: true,
      keys: 7,
      verified: true,
      outage: { totalMs: 1 },
      phases: [],
      leftInPlace: [],
    };
    expect(reportLines(result, undefined)).toEqual(["keys  7"]);
  });

  test("of anything but an object is shown as it is", () => {
    expect(reportLines("done", undefined)).toEqual(["done"]);
  });
});

describe("a failure", () => {
  test("gives the facts, what to do, and the timeline", () => {
    const state = stateAfter(...waiting, [3000, { type: "abort asked", by: "grace", reason: "wrong shard" }]);
    const details = {
      phase: "Copy",
      facts: {
        message: "etcd is full",
        site: "shard-1",
        expected: "2 GB free",
        found: "1 MB",
        advice: "compact it",
      },
      timeline: timelineOf(state, START + 4000),
    };
    const outcome = { status: "failed", type: "Refused", message: "copy failed: …", details } as const;
    expect(failureLines(outcome).join("\n")).toMatchInlineSnapshot(`
      "failed in Copy: etcd is full
        at: shard-1
        expected: 2 GB free
        found: 1 MB
        what to do: compact it
        kind of failure: Refused
        Everything that it had started is undone: it can be started again.

      Timeline, 4.0 s in all
        phase      state  took    started
        Preflight  done   100 ms  2026-01-02T03:04:05.000Z
        Copy       done   2.0 s   2026-01-02T03:04:05.100Z
        Verify     done   200 ms  2026-01-02T03:04:07.100Z
        2026-01-02T03:04:08.000Z abort asked by grace (wrong shard)"
    `);
  });

  test("without details says what is known", () => {
    expect(failureLines({ status: "terminated", message: "by hand" })).toEqual(["terminated: by hand"]);
    expect(failureLines({ status: "failed", message: "odd", details: { timeline: 7 } })).toEqual([
      "failed: odd",
    ]);
  });
});
