import { describe, expect, it } from "vitest";
import { Account } from "../../../testbed/workload/account.ts";
import type { Call } from "../../../testbed/workload/account.ts";

const fence = { askedAt: 1000, provenAt: 1100, routedAt: 1400 };

function call(changes: Partial<Call>): Call {
  return {
    verb: "get",
    resource: "configmaps",
    firstStartedAt: 0,
    startedAt: 0,
    endedAt: 10,
    status: 200,
    attempts: 1,
    outcome: "succeeded",
    ...changes,
  };
}

function accountOf(...calls: Partial<Call>[]): Account {
  const account = new Account();
  for (const changes of calls) account.addCall(call(changes));
  return account;
}

describe("failures", () => {
  it("explains by the fence what was under way at the cut, and tells apart what was sent inside it", () => {
    const underWay = { startedAt: 1050, endedAt: 1101, status: 504, outcome: "failed" } as const;
    const inside = { startedAt: 1200, endedAt: 1201, status: 502, outcome: "failed" } as const;
    const { failed, inFlightAtCut, cutInsideFence } = accountOf(underWay, inside, {}).failures(fence);
    expect(failed).toEqual([]);
    expect(inFlightAtCut).toEqual([call(underWay)]);
    expect(cutInsideFence).toEqual([call(inside)]);
  });

  it("does not excuse a 504 before or after the fence, nor another status inside it", () => {
    const calls = [
      { startedAt: 900, endedAt: 950, status: 504, outcome: "failed" },
      { startedAt: 1500, endedAt: 1501, status: 504, outcome: "failed" },
      { startedAt: 1150, endedAt: 1160, status: 500, outcome: "failed" },
    ] as const;
    expect(accountOf(...calls).failures(fence).failed).toHaveLength(3);
  });

  it("counts a 403 as denied by a new home only where it was sent inside the fence", () => {
    const denied = (startedAt: number) =>
      accountOf({ startedAt, endedAt: startedAt + 5, status: 403, outcome: "failed" }).failures(fence);
    expect(denied(fence.provenAt + 1).cutInsideFence).toHaveLength(1);
    expect(denied(fence.askedAt).failed).toHaveLength(1);
    expect(denied(fence.routedAt + 1).failed).toHaveLength(1);
  });

  it("excuses nothing where there was no fence, and counts conflicts apart", () => {
    const account = accountOf({ status: 504, outcome: "failed" }, { status: 409, outcome: "conflict" });
    expect(account.failures(undefined).failed).toHaveLength(1);
    expect(account.conflicts).toBe(1);
  });
});

describe("gaps", () => {
  it("looks at each verb of each resource alone, and only at successes", () => {
    const account = new Account();
    const attempt = { verb: "get", resource: "widgets", status: 200 } as const;
    for (const endedAt of [0, 10, 20, 30]) account.addAttempt({ ...attempt, startedAt: endedAt, endedAt });
    account.addAttempt({ ...attempt, startedAt: 60, endedAt: 60, status: 503 });
    account.addAttempt({ ...attempt, startedAt: 130, endedAt: 130 });
    for (const endedAt of [0, 40, 80]) {
      account.addAttempt({ ...attempt, verb: "list", startedAt: endedAt, endedAt });
    }
    expect(account.gaps({ from: 0, to: 130 })).toEqual([
      { verb: "get", resource: "widgets", ms: 90, from: 30, to: 130, usualMs: 10 },
      { verb: "list", resource: "widgets", ms: 10, from: 80, to: 130, usualMs: 40 },
    ]);
    expect(account.refusals()).toEqual({ 503: 1 });
  });
});
