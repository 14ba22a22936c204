import { describe, expect, test } from "vitest";
import { defaultWorkflowId, inputFrom } from "../../../cli/input.ts";
import type { InputFlags } from "../../../cli/input.ts";

function refusal(flags: InputFlags, kind?: string): unknown {
  try {
    inputFrom(kind, flags);
  } catch (error) {
    return error;
  }
  throw new Error("it was accepted");
}

function saying(words: string): unknown {
  return expect.objectContaining({ exitCode: 2, message: expect.stringContaining(words) as string });
}

const GOOD = { logicalCluster: "root:team-a", to: "shard-1" };

describe("the input of a move", () => {
  test("is what was typed, without the defaults", () => {
    expect(inputFrom(undefined, { ...GOOD, gate: ["Cutover"] }).input).toEqual({
      ...GOOD,
      gates: ["Cutover"],
    });
  });

  test("comes from JSON, with the options in place of its fields", () => {
    const input = JSON.stringify({ ...GOOD, fenceBudgetMs: 900 });
    expect(inputFrom(undefined, { input, to: "shard-2" }).input).toEqual({
      ...GOOD,
      to: "shard-2",
      fenceBudgetMs: 900,
    });
  });

  test.each([
    [{ to: "shard-1" }, "logicalCluster: is missing; set it with --logical-cluster <path or id>"],
    [{ ...GOOD, to: "Shard_1" }, 'to: "Shard_1" is not valid: a site name is'],
    [
      { ...GOOD, gate: ["Cutover", "cutover"] },
      'gates[1]: "cutover" is not one of AlignRevisions, CopySnapshot',
    ],
    [
      { ...GOOD, fence: "none" },
      'fence: "none" is not one of auto, migration, inactive; set it with --fence',
    ],
    [{ ...GOOD, input: '{"colour":1}' }, "colour: no such field; the fields are gates, dryRun"],
    [{ ...GOOD, input: '{"timeouts":{"verify":{"totalMs":0}}}' }, "timeouts.verify.totalMs: 0 is not valid"],
    [
      { ...GOOD, input: '{"timeouts":{"Verify":{"totalMs":1}}}' },
      "timeouts: no activity is called Verify; there is lock, alignRevisions",
    ],
    [{ ...GOOD, input: '{"timeouts":{"verify":{"total":1}}}' }, 'timeouts.verify: Unrecognized key: "total"'],
    [{ ...GOOD, input: "{" }, "--input is not JSON"],
    [{ ...GOOD, input: "[]" }, "--input must be a JSON object"],
  ])("%j is refused with field, value and fix", (flags, words) => {
    expect(refusal(flags)).toEqual(saying(words));
  });

  test("of an unknown kind is refused with those that there are", () => {
    expect(refusal(GOOD, "shardDrain2")).toEqual(saying("there is logicalClusterMigration"));
    expect(refusal(GOOD, "constructor")).toEqual(saying("there is logicalClusterMigration"));
  });
});

test("the default workflow id names kind and subject", () => {
  expect(defaultWorkflowId(inputFrom(undefined, GOOD))).toBe("logicalClusterMigration/root:team-a");
});
