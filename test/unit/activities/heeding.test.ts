import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { heeding } from "../../../activities/logical-cluster/heeding.ts";
import { Pace } from "../../../etcd/pace.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import type { Shard } from "../../../sites/kcp.ts";

/** A shard of which each replica lets those who ask wait for so long, in ms, or forever. */
function shardOf(...waits: (() => number)[]): Shard {
  const replicas = waits.map((wait) => {
    const request: ApiServer["request"] = async ({ timeoutMs = Infinity }) => {
      await delay(Math.min(wait(), timeoutMs));
      if (wait() >= timeoutMs) throw new Error("no answer in time");
      return { status: 200, headers: {}, body: "" };
    };
    return { request } as ApiServer;
  });
  return { replicas } as unknown as Shard;
}

const soon = { timeout: 20_000, interval: 10 };

describe("heeding", () => {
  it.each<[string, number]>([
    ["slow", 100],
    ["silent", Infinity],
  ])("slows down when one of two replicas is %s, and hurries when it is not", async (_how, slowMs) => {
    let ms = 1;
    const pace = new Pace();
    const free = pace.limit;
    const answer = await heeding(
      shardOf(
        () => 1,
        () => ms,
      ),
      pace,
      async () => {
        expect(pace.limit).toBe(1);
        await vi.waitFor(() => expect(pace.limit).toBeGreaterThan(3), soon);
        ms = slowMs;
        await vi.waitFor(() => expect(pace.limit).toBe(1), soon);
        ms = 1;
        await vi.waitFor(() => expect(pace.limit).toBeGreaterThan(3), soon);
        return "done";
      },
    );
    expect(answer).toBe("done");
    expect(pace.limit).toBe(free);
  });

  it("ends when what it runs fails", async () => {
    const pace = new Pace();
    const failing = heeding(
      shardOf(() => 1),
      pace,
      async () => {
        throw new Error("full");
      },
    );
    await expect(failing).rejects.toThrow("full");
    expect(pace.limit).toBe(new Pace().limit);
  });
});
