import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { failureOf } from "../../etcd/membership/errors.ts";
import { judgeHashes } from "../../etcd/membership/hashes.ts";
import { whyNotInSync } from "../../etcd/membership/sync.ts";
import type { SyncState } from "../../etcd/membership/sync.ts";
import { idFromWire, idToWire } from "../../etcd/membership/types.ts";

const hash = (id: string, value: number, compactRevision = 5n) => ({
  id,
  endpoint: `https://${id}`,
  hash: value,
  compactRevision,
});

describe("failureOf", () => {
  const { FAILED_PRECONDITION, UNAVAILABLE, UNKNOWN, DEADLINE_EXCEEDED, CANCELLED } = status;

  test.each([
    [
      FAILED_PRECONDITION,
      "can only promote a learner member which is in sync with leader",
      "learner-not-ready",
    ],
    [FAILED_PRECONDITION, "can only promote a learner member", "not-learner"],
    [FAILED_PRECONDITION, "too many learner members in cluster", "too-many-learners"],
    [FAILED_PRECONDITION, "Peer URLs already exists", "peer-url-exists"],
    [status.NOT_FOUND, "member not found", "not-found"],
    [UNKNOWN, "re-configuration failed due to not enough started members", "not-enough-started"],
    [UNAVAILABLE, "unhealthy cluster", "unhealthy"],
    [UNAVAILABLE, "request timed out, possibly due to previous leader failure", "ambiguous"],
    [UNAVAILABLE, "leader changed", "ambiguous"],
    [UNAVAILABLE, "no leader", "no-leader"],
    [FAILED_PRECONDITION, "not leader", "not-leader"],
    [FAILED_PRECONDITION, "bad leader transferee", "bad-transferee"],
    [UNKNOWN, "request timed out, leader transfer took too long", "transfer-timeout"],
    [FAILED_PRECONDITION, "rpc not supported for learner", "refused-by-learner"],
    [status.OUT_OF_RANGE, "mvcc: required revision is a future revision", "future-revision"],
    [status.OUT_OF_RANGE, "mvcc: required revision has been compacted", "compacted"],
  ])("code %i, %j", (code, text, failure) => {
    expect(failureOf(code, `etcdserver: ${text}`)).toBe(failure);
  });

  test("what does not come from etcd is told by its code", () => {
    expect(failureOf(UNAVAILABLE, "No connection established")).toBe("unreachable");
    expect(failureOf(DEADLINE_EXCEEDED, "Deadline exceeded after 1s")).toBe("ambiguous");
    expect(failureOf(CANCELLED, "Cancelled on client")).toBe("ambiguous");
    expect(failureOf(status.UNAUTHENTICATED, "invalid auth token")).toBe("other");
  });
});

describe("judgeHashes", () => {
  test("equal", () => {
    expect(judgeHashes(9n, [hash("a", 1), hash("b", 1)])).toEqual({
      outcome: "equal",
      proof: { revision: 9n, compactRevision: 5n, hash: 1, members: ["a", "b"] },
    });
  });

  test("hashes of different compaction revisions say nothing, equal or not", () => {
    const incomparable = { outcome: "incomparable", reason: "compacted at 5, 7", newer: false };
    expect(judgeHashes(9n, [hash("a", 1), hash("b", 2, 7n)])).toEqual(incomparable);
    expect(judgeHashes(9n, [hash("a", 1), hash("b", 1, 7n)])).toEqual(incomparable);
    expect(judgeHashes(9n, [])).toMatchObject({ outcome: "incomparable" });
  });

  test("two that are comparable and differ are enough", () => {
    expect(judgeHashes(9n, [hash("a", 1), hash("b", 3, 7n), hash("c", 2)])).toMatchObject({
      outcome: "different",
    });
  });
});

describe("whyNotInSync", () => {
  const state: SyncState = {
    id: "a",
    learner: true,
    revision: 1_000n,
    lagRevisions: 0n,
    lagIndexes: 0n,
    indexRatio: 1,
    leader: "b",
    errors: [],
  };

  test.each([
    [{}, undefined],
    [{ lagRevisions: 10n }, undefined],
    [{ lagRevisions: 11n }, "it is 11 revisions behind"],
    [{ indexRatio: 0.89 }, "it has applied 0.89 of the log"],
    [{ leader: undefined }, "it does not follow the leader"],
  ])("%o", (change, why) => {
    expect(whyNotInSync({ ...state, ...change }, { maxLagRevisions: 10 })).toBe(why);
  });
});

test("ids are hexadecimal, as etcdctl prints them", () => {
  expect(idFromWire("10276657743932975437")).toBe("8e9e05c52164694d");
  expect(idToWire("8e9e05c52164694d")).toBe("10276657743932975437");
});
