import { Client, Connection } from "@temporalio/client";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { CommandProcess } from "./fixtures/command.ts";
import { Stage } from "./fixtures/stage.ts";

const KIND = "logicalClusterMigration";
const NO_STACK = /\n\s+at .*:\d+/;

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.open(inject("temporal"));
});
afterAll(async () => {
  await stage.close();
});

function begin(...words: readonly string[]): CommandProcess {
  return new CommandProcess(words, stage.endpoint);
}

async function rehome(...words: readonly string[]): ReturnType<CommandProcess["end"]> {
  const ended = await begin(...words).end();
  expect(`${ended.out}${ended.err}`).not.toMatch(NO_STACK);
  return ended;
}

function startWords(cluster: string, ...more: readonly string[]): string[] {
  return ["start", "--logical-cluster", cluster, "--to", "shard-1", "--task-queue", stage.taskQueue, ...more];
}

/** Starts a move that stops in a phase, and waits until it is there. */
async function holdAt(cluster: string, phase: string): Promise<string> {
  stage.script(cluster, { [phase]: "hold" });
  expect(await rehome(...startWords(cluster))).toMatchObject({ code: 0 });
  await stage.reached(cluster, phase);
  return `${KIND}/${cluster}`;
}

describe("a move from start to report", () => {
  test("waits at its gate, is approved, and is reported", async () => {
    const id = `${KIND}/root:gated`;
    const watch = begin(...startWords("root:gated", "--gate", "Cutover", "--watch"));
    await watch.until(
      /waits for approval before Cutover: npm run rehome -- approve \S+ --gate Cutover --by \S+/,
    );
    const approved = await rehome(
      "approve",
      id,
      "--gate",
      "Cutover",
      "--by",
      "grace",
      "--reason",
      "night window",
    );
    expect(approved).toMatchObject({ code: 0, out: "Cutover is approved\n" });
    const { code, out } = await watch.end();
    expect(code).toBe(0);
    expect(out).toContain("moves root:gated: root → shard-1; gates: Cutover");
    expect(out).toContain("Cutover approved by grace (night window)");
    expect(out).toMatch(/Finalize done after .*\n.*completed in .*; users were affected for 384 ms/);
    const report = await rehome("report", id);
    expect(report.code).toBe(0);
    expect(report.out).toMatch(/^root:gated \(2x8f\w+\) was moved from root to shard-1, proven equal/);
    const raw = await rehome("report", id, "--json");
    expect(JSON.parse(raw.out)).toMatchObject({ path: "root:gated", verified: true });
    expect(await rehome("watch", id)).toMatchObject({ code: 0 });
  });

  test("shows figures from heartbeats and attempts that failed, and survives a restart of the worker", async () => {
    const id = await holdAt("root:figures", "CopySnapshot");
    const watch = begin("watch", id);
    await watch.until(/CopySnapshot: 52%, 2,600 of 5,000 keys, 1\.5 MB; shard-1 is 120 ms behind/);
    await stage.stopWorkers();
    await watch.until(/no worker answers \(.*npm run worker/);
    await stage.startWorkers();
    await watch.until(/worker answers again/);
    stage.release("root:figures", "CopySnapshot");
    expect(await watch.end()).toMatchObject({ code: 0 });
    expect(watch.out).toMatch(/copySnapshot .*\(attempt 2\); the last one failed: /);
  });

  test("is told apart from a running one of the same subject", async () => {
    const id = await holdAt("root:twice", "Tail");
    const second = await rehome(...startWords("root:twice"));
    expect(second.code).toBe(1);
    expect(second.err).toContain(
      `${id} is running already, so nothing was started. Watch it: npm run rehome -- watch ${id}`,
    );
    expect((await rehome("report", id)).err).toContain("has not ended, so there is no report yet");
    const interrupted = begin("watch", id);
    await interrupted.until(/Tail started/);
    interrupted.interrupt();
    const { code, err } = await interrupted.end();
    expect([code, err]).toEqual([130, expect.stringContaining("the move goes on")]);
    stage.release("root:twice", "Tail");
    expect(await rehome("watch", id)).toMatchObject({ code: 0 });
    expect(await rehome(...startWords("root:twice", "--watch"))).toMatchObject({ code: 0 });
  });

  test("leaves in the history what was asked for, by whom", async () => {
    expect(await rehome(...startWords("root:asked", "--watch", "--by", "ada"))).toMatchObject({ code: 0 });
    const { address, namespace } = stage.endpoint;
    const connection = await Connection.connect({ address });
    const handle = new Client({ connection, namespace }).workflow.getHandle(`${KIND}/root:asked`);
    const described = await handle.describe();
    expect(await described.staticSummary()).toBe("Move root:asked to shard-1");
    expect(await described.staticDetails()).toMatch(/^Started by ada with .*"logicalCluster": "root:asked"/s);
    await connection.close();
  });

  test("is listed", async () => {
    const listed = await rehome("list", "--json", "--limit", "100");
    const moves = JSON.parse(listed.out) as { workflowId: string }[];
    const move = moves.find(({ workflowId }) => workflowId === `${KIND}/root:gated`);
    const route = { source: "root", destination: "shard-1" };
    expect(move).toMatchObject({ kind: KIND, phase: "Completed", progress: 1, ...route });
    expect((await rehome("list")).out).toMatch(/^MOVE +PHASE +DONE +ROUTE +STARTED +TIME\n/);
  });
});

describe("a move that does not get there", () => {
  test("fails with the facts, exit code 1, and a report that says what to do", async () => {
    stage.script("root:bad", { CopySnapshot: "refuse" });
    const { code, out } = await rehome(...startWords("root:bad", "--watch"));
    expect(code).toBe(1);
    expect(out).toContain(
      "error in CopySnapshot: copySnapshot failed: Refused: logical cluster root:bad is being deleted",
    );
    const report = await rehome("report", `${KIND}/root:bad`);
    expect(report.out).toMatch(
      /^failed in CopySnapshot: logical cluster root:bad is being deleted\n {2}at: root\n/,
    );
    expect(report.out).toContain("what to do: nothing is left to move");
    expect(report.out).toMatch(/CopySnapshot\s+undone/);
    const raw = await rehome("report", `${KIND}/root:bad`, "--json");
    expect(JSON.parse(raw.out)).toMatchObject({
      status: "failed",
      type: "Refused",
      details: { phase: "CopySnapshot" },
    });
  });

  test("is refused by its preflight before `start` returns", async () => {
    stage.script("root:unmovable", { Preflight: "refuse" });
    const { code, out } = await rehome(...startWords("root:unmovable"));
    expect(code).toBe(1);
    expect(out).toMatch(
      /^started .*\nfailed in Preflight: logical cluster root:unmovable is being deleted\n/,
    );
    expect(out).toContain("what to do: nothing is left to move");
  });

  test("is paused, resumed and aborted by whom it says, with exit code 3", async () => {
    const id = await holdAt("root:stopped", "CopySnapshot");
    const watch = begin("watch", id);
    await watch.until(/CopySnapshot started/);
    expect(await rehome("pause", id, "--reason", "lunch")).toMatchObject({
      code: 0,
      out: "the move will pause before Tail\n",
    });
    expect(await rehome("pause", id)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^pause refused: the move is paused already, by /) as string,
    });
    stage.release("root:stopped", "CopySnapshot");
    await watch.until(/paused before Tail; go on: npm run rehome -- resume /);
    stage.script("root:stopped", { Verify: "hold" });
    expect(await rehome("resume", id)).toMatchObject({ code: 0, out: "the move goes on\n" });
    await stage.reached("root:stopped", "Verify");
    const aborted = await rehome("abort", id, "--by", "grace", "--reason", "wrong shard");
    expect(aborted).toMatchObject({ code: 0, out: "the move is being stopped and undone; watch it\n" });
    const { code, out } = await watch.end();
    expect(code).toBe(3);
    expect(out).toContain("abort asked by grace (wrong shard)");
    expect(out).toContain("CopySnapshot is undone");
    const report = await rehome("report", id);
    expect(report.out).toMatch(/^aborted in Verify: aborted by grace: wrong shard\n/);
  });

  test("cannot be aborted after the point of no return, and says why", async () => {
    const id = await holdAt("root:over", "OriginCleanup");
    const { code, err } = await rehome("abort", id, "--reason", "too late");
    expect([code, err]).toEqual([
      1,
      expect.stringContaining("abort refused: the point of no return is behind"),
    ]);
    stage.release("root:over", "OriginCleanup");
    expect(await rehome("watch", id)).toMatchObject({ code: 0 });
    expect((await rehome("abort", id, "--reason", "too late")).err).toContain(
      `${id} has ended. What happened: npm run`,
    );
  });
});

describe("a plan", () => {
  test("is printed alone on stdout, also while a move of the same subject runs", async () => {
    const id = await holdAt("root:planned", "Tail");
    const words = startWords("root:planned").slice(1);
    const plan = await rehome("plan", ...words);
    expect(plan.code).toBe(0);
    expect(plan.out).toMatch(
      /^Plan: root:planned \(\w+\) can be moved from root to shard-1\. Nothing was changed\.\n/,
    );
    expect(plan.out).not.toContain("outage");
    expect(plan.err).toContain("plan made in ");
    expect(JSON.parse((await rehome("plan", "--json", ...words)).out)).toMatchObject({
      dryRun: true,
      keys: 5234,
    });
    stage.release("root:planned", "Tail");
    expect(await rehome("watch", id)).toMatchObject({ code: 0 });
  });
});

describe("a command that cannot be done", () => {
  test.each([
    [["frobnicate"], 2, "unknown command 'frobnicate'"],
    [["approve", "x"], 2, "required option '--gate <phase>' not specified"],
    [["abort", "x"], 2, "required option '--reason <text>' not specified"],
    [["start", "--to", "shard-1"], 2, "logicalCluster: is missing"],
    [["watch", "nothing"], 2, 'there is no move "nothing" in namespace default; see: npm run rehome -- list'],
    [["report", "nothing"], 2, 'there is no move "nothing"'],
    [["approve", "nothing", "--gate", "x"], 2, 'there is no move "nothing"'],
    [["list", "--config", "/nowhere.yaml"], 2, "cannot read configuration /nowhere.yaml"],
    [["list", "--namespace", "nowhere"], 4, 'has no namespace "nowhere": choose one with --namespace'],
    [
      ["list", "--address", "127.0.0.1:1"],
      4,
      "Temporal does not answer at 127.0.0.1:1 (no connection). Start it, or say",
    ],
  ])("%j says why and ends with %d", async (words, code, reason) => {
    const ended = await rehome(...words);
    expect([ended.code, ended.out]).toEqual([code, ""]);
    expect(ended.err).toContain(reason);
  });

  test("tells that no worker is there, instead of waiting in silence", async () => {
    const lonely = [
      "start",
      "--logical-cluster",
      "root:lonely",
      "--to",
      "shard-1",
      "--task-queue",
      "nobody-polls",
    ];
    const { code, err } = await rehome(...lonely);
    expect([code, err]).toEqual([0, expect.stringContaining("no worker polls the task queue nobody-polls")]);
  });

  test("worker passes its flags on, and its exit code back", async () => {
    expect((await rehome("worker", "--help")).out).toContain("--max-transfers <count>");
    expect((await rehome("worker", "--frobnicate")).code).not.toBe(0);
  });
});
