import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CANCELLATION } from "../../workflows/engine/interrupt.ts";
import {
  abortUpdate,
  approveUpdate,
  pauseUpdate,
  progressedSignal,
  resumeUpdate,
} from "../../workflows/engine/messages.ts";
import type { EndDetails } from "../../workflows/engine/run.ts";
import type { MigrationState } from "../../workflows/engine/state.ts";
import { eventCount, failureOf, Harness, progressOf, untilState } from "./fixtures/harness.ts";
import type { Handle } from "./fixtures/harness.ts";

const BEFORE_CUTOVER = ["Lock", "Copy", "CatchUp", "Verify"];
const AFTER_CUTOVER = ["Route", "Cleanup", "Finalize"];
const ABORT = { by: "ada", reason: "wrong cellar" };

let harness: Harness;
beforeAll(async () => {
  harness = await Harness.open();
});
afterAll(async () => {
  await harness.close();
});

async function holdAt(phase: string): Promise<Handle> {
  const handle = await harness.start({ script: { [phase]: "hold" } });
  await harness.world.reached(handle.workflowId, phase);
  return handle;
}

function effects({ workflowId }: Handle): string[] {
  return [...harness.world.diary(workflowId).effects].filter((effect) => effect !== "Verify");
}

function waitsFor(gate: string): (state: MigrationState) => boolean {
  return ({ waitingFor }) => waitingFor === gate;
}

type Update = "approve" | "pause" | "resume" | "abort";

/** Why an update was refused. Also proves that it left no event. */
async function refusal(handle: Handle, update: Update, input: unknown): Promise<string> {
  // A query may show what the history does not hold yet.
  await expect
    .poll(async () => (await handle.describe()).raw.pendingWorkflowTask ?? undefined)
    .toBeUndefined();
  const before = await eventCount(handle);
  const { type, message } = await failureOf(
    handle.executeUpdate<string, [unknown]>(update, { args: [input] }),
  );
  expect(["InvalidInput", "Refused"]).toContain(type);
  expect(await eventCount(handle)).toBe(before);
  return message;
}

describe("abort", () => {
  test.each(BEFORE_CUTOVER)("in %s: stops it, undoes everything, and says who and why", async (phase) => {
    const handle = await holdAt(phase);
    await handle.executeUpdate(abortUpdate, { args: [ABORT] });
    const failed = await failureOf(handle.result());
    expect(failed).toMatchObject({ type: "Aborted", message: "aborted by ada: wrong cellar" });
    const details = failed.details[0] as EndDetails;
    expect(details).toMatchObject({ phase, by: "ada", reason: "wrong cellar" });
    expect(details.timeline.steps.some(({ state }) => state === "running")).toBe(false);
    expect(effects(handle)).toEqual([]);
    expect(harness.world.diary(handle.workflowId).following).toBe(0);
    expect(await progressOf(handle)).toMatchObject({ status: "aborted", undo: [] });
  });

  test("at a gate", async () => {
    const handle = await harness.start({ gates: ["Cutover"] });
    await untilState(handle, waitsFor("Cutover"));
    await handle.executeUpdate(abortUpdate, { args: [ABORT] });
    expect((await failureOf(handle.result())).type).toBe("Aborted");
    expect(effects(handle)).toEqual([]);
  });

  test("a second time, or while a failed move is undone, is refused", async () => {
    const handle = await harness.start({ script: { Verify: "fail", "undo Copy": "hold" } });
    await harness.world.reached(handle.workflowId, "undo Copy");
    expect(await refusal(handle, "abort", ABORT)).toContain("the move is being undone already");
    harness.world.release(handle.workflowId, "undo Copy");
    expect((await failureOf(handle.result())).type).toBe("Refused");
  });

  test("during the cutover is refused with the advice to ask again", async () => {
    const handle = await holdAt("Cutover");
    expect(await refusal(handle, "abort", ABORT)).toContain("cutover under way, ask again if it comes back");
    harness.world.release(handle.workflowId, "Cutover");
    await handle.result();
  });

  test.each(AFTER_CUTOVER)("in %s is refused for good", async (phase) => {
    const handle = await holdAt(phase);
    expect(await refusal(handle, "abort", ABORT)).toContain("the point of no return is behind");
    harness.world.release(handle.workflowId, phase);
    await handle.result();
  });
});

describe("cancelling the workflow", () => {
  test.each(BEFORE_CUTOVER)("in %s is an abort that ends as cancelled", async (phase) => {
    const handle = await holdAt(phase);
    await handle.cancel();
    expect((await failureOf(handle.result())).name).toBe("CancelledFailure");
    expect((await handle.describe()).status.name).toBe("CANCELLED");
    expect(effects(handle)).toEqual([]);
    expect(await progressOf(handle)).toMatchObject({
      status: "cancelled",
      abort: { by: CANCELLATION, phase, native: true },
    });
  });

  test.each(AFTER_CUTOVER)("in %s changes nothing, and the state says so", async (phase) => {
    const handle = await holdAt(phase);
    await handle.cancel();
    const state = await untilState(handle, ({ cancellationIgnored }) => cancellationIgnored !== undefined);
    expect(state.cancellationIgnored).toContain("the point of no return is behind");
    harness.world.release(handle.workflowId, phase);
    expect(await handle.result()).toMatchObject({ parcel: "p-1" });
  });

  test("during a cutover that comes back is heeded then", async () => {
    const handle = await harness.start({ script: { Cutover: "hold then budget" } });
    await harness.world.reached(handle.workflowId, "Cutover");
    await handle.cancel();
    await untilState(handle, ({ cancellationIgnored }) => cancellationIgnored !== undefined);
    harness.world.release(handle.workflowId, "Cutover");
    expect((await failureOf(handle.result())).name).toBe("CancelledFailure");
    expect(effects(handle)).toEqual([]);
  });
});

describe("a gate", () => {
  test("holds the move, with the background at work, until it is approved", async () => {
    const handle = await harness.start({ gates: ["Cutover", "Cleanup"] });
    const waiting = await untilState(handle, waitsFor("Cutover"));
    expect(waiting).toMatchObject({ status: "waiting", phase: "Cutover", abortable: true });
    await harness.world.reached(handle.workflowId, "Follow");
    expect(harness.world.diary(handle.workflowId).following).toBe(1);
    const approval = { gate: "Cutover", by: "ada", reason: "quiet hour" };
    expect(await handle.executeUpdate(approveUpdate, { args: [approval] })).toBe("Cutover is approved");
    await untilState(handle, waitsFor("Cleanup"));
    expect(await refusal(handle, "approve", { gate: "Cutover", by: "bob" })).toContain("already, by ada");
    await handle.executeUpdate(approveUpdate, { args: [{ gate: "Cleanup", by: "bob" }] });
    await handle.result();
    expect((await progressOf(handle)).approvals).toMatchObject([approval, { gate: "Cleanup", by: "bob" }]);
  });

  test("approved ahead of time, even with the start, does not hold the move", async () => {
    const input = { parcel: "p-2", gates: ["Copy"] };
    const handle = await harness.startWith(input, "approve", { gate: "Copy", by: "ada" });
    await handle.result();
    expect((await progressOf(handle)).approvals).toMatchObject([{ gate: "Copy", by: "ada" }]);
  });

  test("refuses what makes no sense, without an event", async () => {
    const handle = await harness.start({ gates: ["Cutover"] });
    await untilState(handle, waitsFor("Cutover"));
    expect(await refusal(handle, "approve", { gate: "Teleport", by: "ada" })).toContain(
      "its gates are Cutover",
    );
    expect(await refusal(handle, "approve", { gate: "Copy", by: "ada" })).toContain("no gate");
    expect(await refusal(handle, "approve", { gate: "Cutover" })).toBe("approve: field by is missing");
    expect(await refusal(handle, "approve", "Cutover")).toContain("approve takes one object");
    expect(await refusal(handle, "resume", { by: "ada" })).toContain("waits for the approval of Cutover");
    await handle.executeUpdate(abortUpdate, { args: [ABORT] });
    await failureOf(handle.result());
  });
});

describe("a pause", () => {
  test("holds the move before the next phase until it is resumed", async () => {
    const handle = await holdAt("Copy");
    const answer = await handle.executeUpdate(pauseUpdate, { args: [{ by: "ada", reason: "lunch" }] });
    expect(answer).toBe("the move will pause before CatchUp");
    harness.world.release(handle.workflowId, "Copy");
    const paused = await untilState(handle, ({ status }) => status === "paused");
    expect(paused).toMatchObject({ phase: "CatchUp", paused: { by: "ada", reason: "lunch" } });
    expect(await refusal(handle, "pause", { by: "bob" })).toContain("paused already, by ada");
    expect(await handle.executeUpdate(resumeUpdate, { args: [{ by: "bob" }] })).toBe("the move goes on");
    await handle.result();
    expect((await progressOf(handle)).resumes).toMatchObject([{ by: "bob" }]);
  });

  test("is not taken before a phase that users wait for", async () => {
    const handle = await holdAt("Cutover");
    expect(await handle.executeUpdate(pauseUpdate, { args: [{ by: "ada" }] })).toContain("before Cleanup");
    harness.world.release(handle.workflowId, "Cutover");
    const paused = await untilState(handle, ({ status }) => status === "paused");
    expect(paused.phase).toBe("Cleanup");
    expect([...harness.world.diary(handle.workflowId).effects]).toContain("Route");
    await handle.executeUpdate(resumeUpdate, { args: [{ by: "ada" }] });
    await handle.result();
  });

  test("is refused where nothing is left to pause before", async () => {
    const handle = await holdAt("Finalize");
    expect(await refusal(handle, "pause", { by: "ada" })).toContain("nothing is left to pause before");
    expect(await refusal(handle, "resume", { by: "ada" })).toContain("not paused");
    harness.world.release(handle.workflowId, "Finalize");
    await handle.result();
  });
});

test("figures that activities send are shown with their phase; what is misshapen or misplaced is dropped", async () => {
  const handle = await holdAt("Copy");
  const figures = { done: 40, total: 100, unit: "keys", bytes: 9, lagMs: 12, lagRevisions: 3 };
  await handle.signal(progressedSignal, { phase: "Copy", ...figures });
  await handle.signal("progressed", { phase: "Copy", done: "many", unit: "keys" });
  await handle.signal(progressedSignal, { phase: "Teleport", done: 1, unit: "keys" });
  const state = await untilState(handle, ({ lag }) => lag !== undefined);
  const copy = state.steps.find(({ name }) => name === "Copy");
  expect(copy?.figures).toMatchObject({ done: 40, total: 100, unit: "keys", bytes: 9 });
  expect(state.lag).toMatchObject({ ms: 12, revisions: 3 });
  harness.world.release(handle.workflowId, "Copy");
  await handle.result();
});
