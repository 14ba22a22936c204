import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { reduce } from "../../../workflows/engine/reduce.ts";
import { refuseAbort, refuseApprove, refusePause, refuseResume } from "../../../workflows/engine/requests.ts";
import { hasEnded, initialState, PREFLIGHT, stepOf } from "../../../workflows/engine/state.ts";
import type { MigrationEvent, MigrationState } from "../../../workflows/engine/state.ts";

const OUTLINE = [
  { name: "Copy", summary: "copy" },
  { name: "Cutover", summary: "cut over", pointOfNoReturn: true },
  { name: "Route", summary: "route", pausable: false },
  { name: "Cleanup", summary: "clean up" },
] as const;
const NAMES = OUTLINE.map(({ name }) => name);

function started(): MigrationState {
  return initialState("parcelMigration", OUTLINE, 1000);
}

function after(...events: readonly MigrationEvent[]): MigrationState {
  return events.reduce(reduce, started());
}

const admitted: MigrationEvent = {
  type: "admitted",
  at: 1001,
  subject: "p",
  source: "a",
  destination: "b",
  gates: ["Cutover"],
  dryRun: false,
};
const run = (phase: string, undo = true): MigrationEvent => ({
  type: "phase started",
  at: 1002,
  phase,
  undo,
});
const done = (phase: string, committed = false): MigrationEvent => ({
  type: "phase done",
  at: 1010,
  phase,
  committed,
});
const committedMove = [admitted, run("Copy"), done("Copy"), run("Cutover"), done("Cutover", true)];

const report = (when: number, count: number): MigrationEvent => ({
  type: "progressed",
  at: when,
  phase: "Copy",
  done: count,
  unit: "keys",
});

const anyPhase = fc.constantFrom(...NAMES);
const anyBy = fc.constantFrom("ada", "bob");
const fault = { failure: fc.constant("Refused"), message: fc.string() };
const at = fc.integer({ min: 1, max: 1_000_000 });
const anyEvent: fc.Arbitrary<MigrationEvent> = fc.oneof(
  fc.constant(admitted),
  fc.record({ type: fc.constant("phase started" as const), at, phase: anyPhase, undo: fc.boolean() }),
  fc.record({ type: fc.constant("phase done" as const), at, phase: anyPhase, committed: fc.boolean() }),
  fc.record({ type: fc.constant("phase skipped" as const), at, phase: anyPhase }),
  fc.record({ type: fc.constant("phase failed" as const), at, phase: anyPhase, ...fault }),
  fc.record({ type: fc.constant("phase stopped" as const), at, phase: anyPhase }),
  fc.record({ type: fc.constant("came back" as const), at, to: anyPhase }),
  fc.record({
    type: fc.constant("held" as const),
    at,
    status: fc.constantFrom("waiting" as const, "paused" as const, "retrying later" as const),
    phase: anyPhase,
  }),
  fc.record({ type: fc.constant("attention needed" as const), at, phase: anyPhase }),
  fc.record({ type: fc.constant("approved" as const), at, gate: anyPhase, by: anyBy }),
  fc.record({ type: fc.constant("pause asked" as const), at, by: anyBy }),
  fc.record({ type: fc.constant("resumed" as const), at, by: anyBy }),
  fc.record({ type: fc.constant("abort asked" as const), at, by: anyBy, reason: fc.string() }),
  fc.record({ type: fc.constant("cancellation ignored" as const), at, why: fc.string() }),
  fc.record({
    type: fc.constant("progressed" as const),
    at,
    phase: anyPhase,
    done: fc.nat(),
    unit: fc.constant("keys"),
    lagMs: fc.option(fc.nat(), { nil: undefined }),
  }),
  fc.record({ type: fc.constant("undo started" as const), at }),
  fc.record({ type: fc.constant("undo step started" as const), at, phase: anyPhase }),
  fc.record({ type: fc.constant("undo step done" as const), at, phase: anyPhase }),
  fc.record({ type: fc.constant("undo step failed" as const), at, phase: anyPhase, ...fault }),
  fc.record({
    type: fc.constant("ended" as const),
    at,
    status: fc.constantFrom("completed" as const, "failed" as const),
  }),
);

function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) for (const part of Object.values(value)) frozen(part);
  return Object.freeze(value);
}

describe("whatever happens in whatever order", () => {
  const histories = fc.array(anyEvent, { maxLength: 40 });

  test("the state survives JSON and is never changed in place", () => {
    fc.assert(
      fc.property(histories, (events) => {
        const end = events.reduce((state, event) => frozen(reduce(state, frozen(event))), frozen(started()));
        expect(JSON.parse(JSON.stringify(end))).toEqual(end);
      }),
    );
  });

  test("a committed move stays committed, and is never abortable", () => {
    fc.assert(
      fc.property(histories, (events) => {
        const end = events.reduce(reduce, after(...committedMove));
        expect(end.committed).toBe(true);
        expect(end.abortable).toBe(false);
        expect(refuseAbort(end)).toBeDefined();
      }),
    );
  });

  test("no phase is to be undone twice, and abortable and its reason agree", () => {
    fc.assert(
      fc.property(histories, (events) => {
        const end = events.reduce(reduce, started());
        expect(new Set(end.undo).size).toBe(end.undo.length);
        expect(end.abortable).toBe(end.notAbortableBecause === undefined);
      }),
    );
  });

  test("a move that has ended takes no message", () => {
    fc.assert(
      fc.property(histories, (events) => {
        const end = reduce(events.reduce(reduce, started()), { type: "ended", at: 1, status: "failed" });
        expect(hasEnded(end)).toBe(true);
        for (const refusal of [
          refuseAbort(end),
          refusePause(end),
          refuseResume(end),
          refuseApprove(end, "Copy"),
        ]) {
          expect(refusal).toContain("has ended");
        }
      }),
    );
  });
});

describe("steps", () => {
  test("begin with the preflight, which runs", () => {
    expect(started().steps.map(({ name, state }) => [name, state])).toEqual([
      [PREFLIGHT, "running"],
      ...NAMES.map((name) => [name, "pending"]),
    ]);
  });

  test("keep when they ran and how often", () => {
    expect(stepOf(after(admitted, run("Copy"), done("Copy")), "Copy")).toMatchObject({
      state: "done",
      startedAt: 1002,
      endedAt: 1010,
      runs: 1,
    });
  });

  test("are to do again after a comeback, and what they left stays to undo", () => {
    const state = after(admitted, run("Copy"), done("Copy"), run("Cutover"), {
      type: "came back",
      at: 1020,
      to: "Copy",
    });
    expect(state.steps.slice(1).every((step) => step.state === "pending")).toBe(true);
    expect(state).toMatchObject({ undo: ["Copy", "Cutover"], comebacks: 1, abortable: true });
  });

  test("have a rate from two reports on", () => {
    const state = after(admitted, run("Copy"), report(2000, 100), report(4000, 700));
    expect(stepOf(state, "Copy")?.figures).toMatchObject({ done: 700, perSecond: 300 });
  });
});

describe("abort", () => {
  test("is possible before, not during, and never after the point of no return", () => {
    expect(after(admitted, run("Copy")).abortable).toBe(true);
    expect(after(admitted, run("Copy"), done("Copy"), run("Cutover")).notAbortableBecause).toContain(
      "cutover under way",
    );
    expect(after(...committedMove).notAbortableBecause).toContain("point of no return is behind");
  });

  test("is possible throughout a dry run", () => {
    expect(after({ ...admitted, dryRun: true }, run("Cutover", false)).abortable).toBe(true);
  });

  test("is not possible twice", () => {
    const state = after(admitted, run("Copy"), { type: "abort asked", at: 1003, by: "ada", reason: "no" });
    expect(refuseAbort(state)).toContain("being undone already");
    expect(state.abort).toEqual({ by: "ada", at: 1003, reason: "no", phase: "Copy" });
  });

  test("is not possible while a failed undo waits for its next attempt", () => {
    const state = after(
      admitted,
      run("Copy"),
      { type: "undo started", at: 1003 },
      { type: "undo step started", at: 1003, phase: "Copy" },
      { type: "undo step failed", at: 1004, phase: "Copy", failure: "Refused", message: "no" },
      { type: "attention needed", at: 1004, phase: "Copy" },
    );
    expect(state.status).toBe("needs attention");
    expect(refuseAbort(state)).toContain("being undone already");
  });
});

describe("gates and pauses", () => {
  test("a gate can be approved before it is reached, once, and not when it is passed", () => {
    const early = after(admitted, run("Copy"));
    expect(refuseApprove(early, "Cutover")).toBeUndefined();
    const approved = reduce(early, { type: "approved", at: 1, gate: "Cutover", by: "ada" });
    expect(refuseApprove(approved, "Cutover")).toContain("already, by ada");
    expect(refuseApprove(after(admitted, run("Cutover")), "Cutover")).toContain("passed already");
    expect(refuseApprove(early, "Copy")).toContain("its gates are Cutover");
  });

  test("before the input is accepted, any phase may be approved", () => {
    expect(refuseApprove(started(), "Copy")).toBeUndefined();
    expect(refuseApprove(started(), PREFLIGHT)).toContain("no gate");
  });

  test("a pause is refused where only phases are left that do not pause", () => {
    const state = after(...committedMove, run("Route"), done("Route"), run("Cleanup"));
    expect(refusePause(state)).toContain("nothing is left to pause before");
  });
});
