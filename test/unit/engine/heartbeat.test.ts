import { MockActivityEnvironment } from "@temporalio/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { heartbeatCursor } from "../../../activities/heartbeat.ts";
import { nextDue } from "../../../activities/progress.ts";

const cursor = z.object({ key: z.string() });

async function resumed(heartbeatDetails: unknown): Promise<unknown> {
  const environment = new MockActivityEnvironment({ heartbeatDetails });
  return await environment.run(async () => heartbeatCursor(cursor).resume);
}

describe("the heartbeat cursor", () => {
  test("resumes where an earlier attempt was", async () => {
    expect(await resumed({ key: "k7" })).toEqual({ key: "k7" });
  });

  test.each([undefined, null, { page: 3 }, "k7"])("starts over from %j", async (details) => {
    expect(await resumed(details)).toBeUndefined();
  });

  test("beats with the cursor, and keeps beating with the latest", async () => {
    const environment = new MockActivityEnvironment({ heartbeatDetails: { key: "k1" } });
    const beats: unknown[] = [];
    const third = Promise.withResolvers<void>();
    environment.on("heartbeat", (details: unknown) => {
      beats.push(details);
      if (beats.length === 3) third.resolve();
    });
    await environment.run(async () => {
      const { beat, keepAlive } = heartbeatCursor(cursor);
      beat({ key: "k2" });
      const alive = keepAlive(5);
      await third.promise;
      alive[Symbol.dispose]();
    });
    expect(beats.slice(0, 3)).toEqual([{ key: "k2" }, { key: "k2" }, { key: "k2" }]);
  });

  test("has the signal of the activity's cancellation", async () => {
    const environment = new MockActivityEnvironment();
    const seen = environment.run(async () => {
      const { signal } = heartbeatCursor(cursor);
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return signal.aborted;
    });
    environment.cancel("CANCELLED");
    expect(await seen).toBe(true);
  });
});

test("progress is reported ever more seldom: some fifteen times in a day", () => {
  let reports = 0;
  for (let due = nextDue(0); due < 24 * 3600 * 1000; due = nextDue(due)) reports += 1;
  expect(nextDue(0)).toBe(5000);
  expect(reports).toBe(15);
});
