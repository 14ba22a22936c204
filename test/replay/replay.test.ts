import { fileURLToPath } from "node:url";
import { DefaultLogger, Runtime, Worker } from "@temporalio/worker";
import type { WorkflowBundle } from "@temporalio/worker";
import { beforeAll, describe, expect, test } from "vitest";
import { buildBundle, readBundle } from "../../workers/bundle.ts";
import { readHistories } from "./histories.ts";

const FIXTURE = fileURLToPath(new URL("../engine/fixtures/workflows.ts", import.meta.url));
/** The engine's test kind is in no shipped bundle. Its histories guard the engine itself, of which all kinds are made. */
const FIXTURE_KIND = "parcelMigration";

const histories = await readHistories();
const bundles = new Map<string, WorkflowBundle>();

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  bundles.set(FIXTURE_KIND, await buildBundle(FIXTURE));
  if (histories.some(({ kind }) => kind !== FIXTURE_KIND)) bundles.set("shipped", await readBundle());
});

describe.each(histories)("$kind: $shape", ({ kind, shape, history }) => {
  test("is what the workflow code of today would do", async () => {
    const workflowBundle = bundles.get(kind === FIXTURE_KIND ? kind : "shipped");
    if (workflowBundle === undefined) throw new Error(`no bundle for ${kind}`);
    const replayed = Worker.runReplayHistories({ workflowBundle }, [{ workflowId: shape, history }]);
    const errors: unknown[] = [];
    for await (const { error } of replayed) errors.push(error);
    expect(errors).toEqual([undefined]);
  });
});

test("a change of what is done when is caught", async () => {
  const workflowBundle = bundles.get(FIXTURE_KIND);
  const completed = histories.find(({ kind, shape }) => kind === FIXTURE_KIND && shape === "completed");
  if (workflowBundle === undefined || completed === undefined) throw new Error("nothing to change");
  const history = structuredClone(completed.history);
  const calls = history.events?.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []) ?? [];
  for (const call of calls.slice(-1)) call.activityType = { name: "another" };
  const replayed = Worker.runReplayHistories({ workflowBundle }, [{ workflowId: "changed", history }]);
  const errors: unknown[] = [];
  for await (const { error } of replayed) errors.push(error?.name);
  expect(errors).toEqual(["DeterminismViolationError"]);
});
