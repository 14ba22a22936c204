import { ApplicationFailure } from "@temporalio/common";
import { GRPCUnavailableError } from "etcd3";
import { describe, expect, it } from "vitest";
import { classified, classify } from "../../../activities/classify.ts";
import { CompactedError, LockedError, SupersededError } from "../../../etcd/errors.ts";
import { ApiError } from "../../../kubernetes/api-server.ts";
import { UnknownSiteError } from "../../../sites/unknown-site.ts";
import { failure } from "../../../workflows/engine/failures.ts";

const answer = (status: number) =>
  new ApiError("shard root", { path: "/x" }, { status, headers: {}, body: '{"message":"no","reason":"R"}' });
const socket = (code: string) => Object.assign(new Error(`connect ${code}`), { code });

describe("errors of libraries", () => {
  it.each([
    [new SupersededError("etcd"), "Superseded", false],
    [new LockedError("etcd", "other"), "LockLost", true],
    [new CompactedError("etcd"), "Compacted", false],
    [new UnknownSiteError("shard", "x", []), "InvalidInput", true],
    [answer(401), "Unauthorized", true],
    [answer(503), "Unreachable", false],
    [answer(429), "Unreachable", false],
    [answer(403), "Unreachable", false],
    [answer(422), "Unexpected", false],
    [socket("ECONNREFUSED"), "Unreachable", false],
    [socket("DEPTH_ZERO_SELF_SIGNED_CERT"), "Unauthorized", true],
    [new GRPCUnavailableError("14"), "Unreachable", false],
    [new TypeError("oops"), "Unexpected", false],
    ["text", "Unexpected", false],
  ])("%s become %s", (error, type, nonRetryable) => {
    expect(classify(error)).toMatchObject({ type, nonRetryable });
  });

  it("that are failures already stay as they are", () => {
    const known = failure("Refused", "no");
    expect(classify(known)).toBe(known);
  });

  it("never leave an activity unclassified", async () => {
    const activities = classified({
      async broken(_input: string): Promise<string> {
        throw new SupersededError("etcd");
      },
      async works(input: string) {
        return `${input}!`;
      },
    });
    await expect(activities.broken("x")).rejects.toThrow(ApplicationFailure);
    expect(await activities.works("x")).toBe("x!");
  });
});
