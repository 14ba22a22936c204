import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SEARCH_ATTRIBUTES } from "../../workflows/engine/names.ts";
import type { EndDetails } from "../../workflows/engine/run.ts";
import { eventCount, failureOf, Harness, progressOf, untilState } from "./fixtures/harness.ts";

const UNDOABLE = ["Lock", "Copy", "CatchUp"];
const ALL = ["Lock", "Copy", "CatchUp", "Verify", "Cutover", "Route", "Cleanup", "Finalize"];

let harness: Harness;
beforeAll(async () => {
  harness = await Harness.open();
});
afterAll(async () => {
  await harness.close();
});

function deeds(workflowId: string): readonly string[] {
  return harness.world.diary(workflowId).deeds;
}

function effects(workflowId: string): string[] {
  return [...harness.world.diary(workflowId).effects];
}

describe("a move that nothing disturbs", () => {
  test("runs its phases in order, leaves out what does not apply, and reports", async () => {
    const handle = await harness.start();
    const report = await handle.result();
    expect(deeds(handle.workflowId)).toEqual(ALL);
    expect(report).toMatchObject({ parcel: "p-1", comebacks: 0 });
    const state = await progressOf(handle);
    expect(state).toMatchObject({ status: "completed", committed: true, abortable: false, undo: [] });
    const skipped = state.steps.filter((step) => step.state !== "done");
    expect(skipped).toMatchObject([{ name: "Insure", state: "skipped" }]);
    expect(harness.world.diary(handle.workflowId).following).toBe(0);
  });

  test("keeps its history small", async () => {
    const handle = await harness.start({ script: { Insure: "ok" } });
    await handle.result();
    expect(await eventCount(handle)).toBeLessThan(100);
  });

  test("can be found by what it moves and how far it is", async () => {
    const handle = await harness.start();
    await handle.result();
    const { typedSearchAttributes: found } = await handle.describe();
    expect(found.get(SEARCH_ATTRIBUTES.kind)).toBe("parcelMigration");
    expect(found.get(SEARCH_ATTRIBUTES.phase)).toBe("Completed");
    expect(found.get(SEARCH_ATTRIBUTES.subject)).toBe("p-1");
    expect(found.get(SEARCH_ATTRIBUTES.source)).toBe("attic");
    expect(found.get(SEARCH_ATTRIBUTES.destination)).toBe("cellar");
    expect(found.get(SEARCH_ATTRIBUTES.progress)).toBe(1);
  });
});

describe("an input that is refused", () => {
  test("by the preflight: fails with its type and its facts, and touches nothing", async () => {
    const handle = await harness.start({ parcel: "" });
    const failed = await failureOf(handle.result());
    expect(failed).toMatchObject({ type: "InvalidInput" });
    expect(failed.message).toContain("parcel is missing");
    expect(failed.details[0]).toMatchObject({ phase: "Preflight", facts: { advice: "name the parcel" } });
    expect(deeds(handle.workflowId)).toEqual([]);
  });

  test("by the runner: a gate that is no phase", async () => {
    const handle = await harness.start({ gates: ["Copy", "Teleport"] });
    const failed = await failureOf(handle.result());
    expect(failed.type).toBe("InvalidInput");
    expect(failed.message).toContain('"Teleport" is not a phase of parcelMigration; use any of Lock, Copy');
  });
});

describe("a failing phase", () => {
  test.each(["Lock", "Copy", "CatchUp", "Verify", "Cutover"])(
    "%s: undoes what was started, last first, and fails with its type",
    async (name) => {
      const handle = await harness.start({ script: { [name]: "fail" } });
      const failed = await failureOf(handle.result());
      expect(failed.type).toBe("Refused");
      expect(failed.message).toContain(`${name} is refused`);
      const details = failed.details[0] as EndDetails;
      expect(details.phase).toBe(name);
      const started = ALL.slice(0, ALL.indexOf(name) + 1).filter((each) => each !== "Verify");
      expect(deeds(handle.workflowId).filter((deed) => deed.startsWith("undo"))).toEqual(
        started.toReversed().map((each) => `undo ${each}`),
      );
      expect(effects(handle.workflowId).filter((each) => each !== "Verify")).toEqual([]);
      expect(await progressOf(handle)).toMatchObject({ status: "failed", abortable: false, undo: [] });
      expect(harness.world.diary(handle.workflowId).following).toBe(0);
    },
  );

  test("that took effect and then fell silent is undone too", async () => {
    const handle = await harness.start({ script: { Copy: "hang once" }, stepTotalMs: 5_000 });
    const failed = await failureOf(handle.result());
    expect(failed.type).toBe("Timeout");
    expect(deeds(handle.workflowId)).toEqual(["Lock", "Copy", "undo Copy", "undo Lock"]);
    expect(effects(handle.workflowId)).toEqual([]);
  });

  test("whose undo fails: tries again until all is undone, and says so meanwhile", async () => {
    const handle = await harness.start({ script: { Verify: "fail", "undo Copy": "fail once then hold" } });
    const state = await untilState(handle, ({ undoErrors }) => undoErrors.length > 0);
    expect(state.undoErrors[0]).toMatchObject({ phase: "Copy", type: "Refused" });
    harness.world.release(handle.workflowId, "undo Copy");
    expect((await failureOf(handle.result())).type).toBe("Refused");
    expect(deeds(handle.workflowId).slice(-3)).toEqual(["undo CatchUp", "undo Copy", "undo Lock"]);
    expect(await progressOf(handle)).toMatchObject({ status: "failed", undoErrors: [] });
  });

  test("in the background ends the move, though the phases go well", async () => {
    const handle = await harness.start({ gates: ["Cutover"], script: { Follow: "fail" } });
    await untilState(handle, ({ waitingFor }) => waitingFor === "Cutover");
    harness.world.release(handle.workflowId, "Follow");
    const failed = await failureOf(handle.result());
    expect(failed.message).toContain("Follow is refused");
    expect(effects(handle.workflowId)).toEqual(["Verify"]);
  });
});

describe("the point of no return", () => {
  test("comes back when it gave up in time, walks on from an earlier phase, and tries again", async () => {
    const handle = await harness.start({ script: { Cutover: "budget once" } });
    expect((await handle.result()).comebacks).toBe(1);
    const again = ["CatchUp", "Verify", "Cutover", "Route", "Cleanup", "Finalize"];
    expect(deeds(handle.workflowId)).toEqual(["Lock", "Copy", "CatchUp", "Verify", ...again]);
    expect(harness.world.diary(handle.workflowId).calls.get("Follow")).toBe(2);
  });

  test("fails the move when it has come back too often, and everything is undone", async () => {
    const handle = await harness.start({ script: { Cutover: "budget" } });
    expect((await failureOf(handle.result())).type).toBe("FenceBudgetExceeded");
    expect(effects(handle.workflowId)).toEqual(["Verify"]);
    expect((await progressOf(handle)).comebacks).toBe(2);
  });

  test("is never undone when nobody knows whether it took effect", async () => {
    const handle = await harness.start({ script: { Cutover: "hang once" }, stepTotalMs: 5_000 });
    const state = await untilState(handle, ({ status }) => status === "needs attention");
    expect(state).toMatchObject({ phase: "Cutover", abortable: false, committed: false });
    const refused = await failureOf(
      handle.executeUpdate("abort", { args: [{ by: "ada", reason: "stuck" }] }),
    );
    expect(refused.message).toContain("may have taken effect");
    await handle.executeUpdate("resume", { args: [{ by: "ada" }] });
    await handle.result();
    expect(deeds(handle.workflowId).filter((deed) => deed.startsWith("undo"))).toEqual([]);
  });

  test.each(["Route", "Cleanup", "Finalize"])(
    "is behind: a failing %s waits for a person and is run again",
    async (name) => {
      const handle = await harness.start({ script: { [name]: "fail once" } });
      const state = await untilState(handle, ({ status }) => status === "needs attention");
      expect(state).toMatchObject({ phase: name, abortable: false, committed: true });
      expect(state.lastError).toMatchObject({ phase: name, type: "Refused" });
      expect(await handle.executeUpdate("resume", { args: [{ by: "ada" }] })).toBe(`${name} runs again`);
      await handle.result();
      expect(deeds(handle.workflowId)).toEqual(ALL);
      expect((await progressOf(handle)).resumes).toMatchObject([{ by: "ada" }]);
    },
  );
});

describe("a dry run", () => {
  test("waits at no gate, changes nothing, and returns the plan", async () => {
    const handle = await harness.start({ dryRun: true, gates: ["Copy", "Cutover"] });
    expect((await handle.result()).notes.slice(0, 2)).toEqual(["plan", "would Lock"]);
    expect(deeds(handle.workflowId)).toEqual(ALL.map((name) => `dry ${name}`));
    expect(await progressOf(handle)).toMatchObject({ status: "completed", committed: false, dryRun: true });
  });
});

test.each(UNDOABLE)("the undo of %s is recorded before it runs", async (name) => {
  const handle = await harness.start({ script: { [name]: "hold" } });
  await harness.world.reached(handle.workflowId, name);
  expect((await progressOf(handle)).undo).toEqual(UNDOABLE.slice(0, UNDOABLE.indexOf(name) + 1));
  harness.world.release(handle.workflowId, name);
  await handle.result();
});
