import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { abortUpdate, approveUpdate, progressedSignal } from "../../workflows/engine/messages.ts";
import { LONG_HISTORY, SEARCH_ATTRIBUTES } from "../../workflows/engine/names.ts";
import { lineOf, startNode } from "../testbed/wait.ts";
import { failureOf, Harness, progressOf, untilState } from "./fixtures/harness.ts";
import type { Handle } from "./fixtures/harness.ts";

const ALL = ["Lock", "Copy", "CatchUp", "Verify", "Cutover", "Route", "Cleanup", "Finalize"];

/** temporal.api.enums.v1.TimeoutType */
const TIMEOUT_TYPE_HEARTBEAT = 4;

let harness: Harness;
beforeAll(async () => {
  harness = await Harness.open();
});
afterAll(async () => {
  await harness.close();
});

/** A few at a time: more would keep heartbeats waiting until they are missed. */
async function fillHistory(handle: Handle): Promise<void> {
  for (let sent = 0; sent < LONG_HISTORY; sent += 8) {
    const figures = { phase: "Copy", done: sent, unit: "keys" };
    await Promise.all(Array.from({ length: 8 }, async () => await handle.signal(progressedSignal, figures)));
  }
}

async function untilContinued(handle: Handle): Promise<void> {
  const { runId } = await handle.describe();
  await fillHistory(handle);
  await expect.poll(async () => (await handle.describe()).runId).not.toBe(runId);
}

async function holdAtGate(): Promise<Handle> {
  const handle = await harness.start({ gates: ["Cutover", "Cleanup"] });
  await untilState(handle, ({ waitingFor }) => waitingFor === "Cutover");
  await handle.executeUpdate(approveUpdate, { args: [{ gate: "Cleanup", by: "ada" }] });
  await untilContinued(handle);
  return handle;
}

describe("continuing as new", () => {
  test("at a gate keeps state, context and approvals, and starts the background again", async () => {
    const handle = await holdAtGate();
    const state = await untilState(handle, ({ waitingFor }) => waitingFor === "Cutover");
    expect(state).toMatchObject({ undo: ["Lock", "Copy", "CatchUp"], approvals: [{ by: "ada" }] });
    await expect.poll(() => harness.world.diary(handle.workflowId).calls.get("Follow")).toBe(2);
    expect(harness.world.diary(handle.workflowId).following).toBe(1);
    await handle.executeUpdate(approveUpdate, { args: [{ gate: "Cutover", by: "bob" }] });
    const { notes } = await handle.result();
    expect(notes).toEqual(["Lock", "Copy", "CatchUp", "Verify", "Follow", "Follow", ...ALL.slice(4)]);
    expect(harness.world.diary(handle.workflowId).deeds).toEqual(ALL);
    const { typedSearchAttributes: found } = await handle.describe();
    expect(found.get(SEARCH_ATTRIBUTES.subject)).toBe("p-1");
  });

  test("keeps what there is to undo", async () => {
    const handle = await holdAtGate();
    await handle.executeUpdate(abortUpdate, { args: [{ by: "ada", reason: "changed my mind" }] });
    expect((await failureOf(handle.result())).type).toBe("Aborted");
    expect(harness.world.diary(handle.workflowId).deeds.slice(-3)).toEqual([
      "undo CatchUp",
      "undo Copy",
      "undo Lock",
    ]);
  });

  test("happens between phases, and not before one that users wait for", async () => {
    const handle = await harness.start({ script: { Cutover: "hold" } });
    await harness.world.reached(handle.workflowId, "Cutover");
    const { runId } = await handle.describe();
    await fillHistory(handle);
    harness.world.release(handle.workflowId, "Cutover");
    await handle.result();
    const first = harness.client.workflow.getHandle(handle.workflowId, runId);
    expect((await first.describe()).status.name).toBe("CONTINUED_AS_NEW");
    const { events } = await first.fetchHistory();
    const scheduled = events?.flatMap(({ activityTaskScheduledEventAttributes: call }) => call ?? []) ?? [];
    // Route is the last that the first run has called.
    expect(scheduled.filter(({ activityType }) => activityType?.name === "step")).toHaveLength(5);
    expect(harness.world.diary(handle.workflowId).deeds).toEqual(ALL);
  });
});

describe("a lost worker", () => {
  test("stopped in the middle of a phase: another goes on, with the same state", async () => {
    const handle = await harness.start({ gates: ["Finalize"], script: { Copy: "hold" } });
    await harness.world.reached(handle.workflowId, "Copy");
    await harness.stopWorkers();
    harness.world.release(handle.workflowId, "Copy");
    await harness.startWorkers();
    await untilState(handle, ({ waitingFor }) => waitingFor === "Finalize");
    await harness.stopWorkers();
    await harness.startWorkers();
    await handle.executeUpdate(approveUpdate, { args: [{ gate: "Finalize", by: "ada" }] });
    await handle.result();
    expect([...harness.world.diary(handle.workflowId).effects]).toEqual(ALL);
  });

  test("killed in the cutover: it is missed by its silence, and another runs it again", async () => {
    await harness.stopWorkers();
    const victim = await startWorkerProcess();
    const handle = await harness.start({ script: { Cutover: "hold" } });
    await untilState(handle, ({ phase }) => phase === "Cutover");
    await untilStarted(handle, "cutover");
    victim.kill("SIGKILL");
    await once(victim, "exit");
    await harness.startWorkers();
    await harness.world.reached(handle.workflowId, "Cutover");
    harness.world.release(handle.workflowId, "Cutover");
    await handle.result();
    const { events } = await handle.fetchHistory();
    const missed = events?.flatMap(
      ({ activityTaskStartedEventAttributes: start }) => start?.lastFailure?.timeoutFailureInfo ?? [],
    );
    expect(missed?.map(({ timeoutType }) => timeoutType)).toEqual([TIMEOUT_TYPE_HEARTBEAT]);
    expect(await progressOf(handle)).toMatchObject({ status: "completed", comebacks: 0 });
  });
});

/** See workers/start.ts for what comes of a workflow that one worker keeps in its memory. */
test("no turn of a workflow waits for the worker that had the one before", async () => {
  const handle = await harness.start({ gates: ["Cutover"] });
  await untilState(handle, ({ waitingFor }) => waitingFor === "Cutover");
  await handle.executeUpdate(approveUpdate, { args: [{ gate: "Cutover", by: "ada" }] });
  await handle.result();
  const { events } = await handle.fetchHistory();
  const queues = events?.flatMap(
    ({ workflowTaskScheduledEventAttributes: task }) => task?.taskQueue?.name ?? [],
  );
  expect(new Set(queues)).toEqual(new Set([harness.taskQueue]));
});

/** A worker that polls, in a process of its own. */
async function startWorkerProcess(): Promise<ChildProcess> {
  const { address, namespace } = inject("temporal");
  const script = fileURLToPath(new URL("./fixtures/worker-process.ts", import.meta.url));
  const worker = startNode(script, [address, namespace, harness.taskQueue]);
  await lineOf(worker, /^ready$/);
  return worker;
}

async function untilStarted(handle: Handle, activity: string): Promise<void> {
  const isStarted = async (): Promise<boolean> => {
    const { raw } = await handle.describe();
    return (
      raw.pendingActivities?.some(
        ({ activityType, lastHeartbeatTime }) => activityType?.name === activity && lastHeartbeatTime != null,
      ) ?? false
    );
  };
  await expect.poll(isStarted, { timeout: 20_000 }).toBe(true);
}

describe("a worker with one slot for transfers", () => {
  test("follows every move that waits", async () => {
    await harness.stopWorkers();
    await harness.startWorkers({ maxTransfers: 1 });
    const moves = [await harness.start({ gates: ["Cutover"] }), await harness.start({ gates: ["Cutover"] })];
    for (const { workflowId } of moves) await harness.world.reached(workflowId, "Follow");
    for (const move of moves) {
      expect(harness.world.diary(move.workflowId).following).toBe(1);
      await untilState(move, ({ waitingFor }) => waitingFor === "Cutover");
      await move.executeUpdate(approveUpdate, { args: [{ gate: "Cutover", by: "ada" }] });
      await move.result();
    }
  });
});
