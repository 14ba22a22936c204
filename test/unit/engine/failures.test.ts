import { ActivityFailure, ApplicationFailure, CancelledFailure, TimeoutFailure } from "@temporalio/common";
import { describe, expect, test } from "vitest";
import {
  failure,
  FAILURES,
  failureType,
  isConclusive,
  isFailure,
  plainWords,
} from "../../../workflows/engine/failures.ts";
import type { FailureType } from "../../../workflows/engine/failures.ts";

function inActivity(cause: Error, activity = "copySnapshot"): ActivityFailure {
  return new ActivityFailure("Activity task failed", activity, "1", "NON_RETRYABLE_FAILURE", "worker", cause);
}

describe("failure", () => {
  test("tells the facts in a fixed order, and keeps them", () => {
    const facts = {
      message: "cluster x is being deleted",
      site: "shard-1",
      expected: "Ready",
      found: "Deleting",
      advice: "wait until it is gone",
    };
    const made = failure("Refused", facts);
    expect(made.message).toBe(
      "cluster x is being deleted (at shard-1); expected: Ready; found: Deleting; wait until it is gone",
    );
    expect(made.details).toEqual([facts]);
  });

  test.each(Object.keys(FAILURES) as FailureType[])(
    "%s is tried again if and only if that can help",
    (type) => {
      expect(failure(type, "x").nonRetryable).toBe(!FAILURES[type].retryable);
    },
  );
});

describe("seen through an activity's failure", () => {
  test("the type is what the activity threw", () => {
    expect(failureType(inActivity(failure("Conflict", "x")))).toBe("Conflict");
    expect(isFailure(inActivity(failure("Conflict", "x")), "Refused", "Conflict")).toBe(true);
  });

  test("time limits, cancellations and strangers have a type too", () => {
    expect(failureType(inActivity(new TimeoutFailure("t", undefined, "HEARTBEAT")))).toBe("Timeout");
    expect(failureType(inActivity(new CancelledFailure("c")))).toBe("Aborted");
    expect(failureType(ApplicationFailure.retryable("x", "TypeError"))).toBe("Unexpected");
    expect(failureType("text")).toBe("Unexpected");
  });

  test("only what the activity itself calls final is conclusive", () => {
    expect(isConclusive(inActivity(failure("FenceBudgetExceeded", "x")))).toBe(true);
    expect(isConclusive(inActivity(failure("Unreachable", "x")))).toBe(false);
    expect(isConclusive(inActivity(new TimeoutFailure("t", undefined, "START_TO_CLOSE")))).toBe(false);
  });
});

describe("plain words", () => {
  test("name the activity and what it said", () => {
    expect(
      plainWords(inActivity(failure("Unreachable", "etcd does not answer"), "dryRun:copySnapshot")),
    ).toBe("copySnapshot failed: Unreachable: etcd does not answer");
  });

  test("say what a time limit means", () => {
    const silent = inActivity(new TimeoutFailure("t", undefined, "HEARTBEAT"));
    expect(plainWords(silent)).toBe("copySnapshot failed: its worker stopped answering");
  });

  test("take any error", () => {
    expect(plainWords(new Error("boom"))).toBe("boom");
    expect(plainWords("boom")).toBe("boom");
  });
});
