import { expect, test } from "vitest";
import { summarize } from "../summary.ts";

interface File {
  status: "passed" | "failed";
  tests: ("passed" | "failed" | "skipped" | "todo")[];
}

function reportOf(files: readonly File[], success = files.every(({ status }) => status === "passed")) {
  const tests = files.flatMap((file) => file.tests);
  const count = (status: string) => tests.filter((one) => one === status).length;
  return {
    success,
    numTotalTests: tests.length,
    numPassedTests: count("passed"),
    numFailedTests: count("failed"),
    testResults: files.map(({ status, tests: all }) => ({
      status,
      assertionResults: all.map((one) => ({ status: one })),
    })),
  };
}

test("counts what passed and failed", () => {
  const good = reportOf([{ status: "passed", tests: ["passed", "passed"] }]);
  expect(summarize(good)).toEqual({ line: "2 passed, 0 failed", good: true });
  const bad = reportOf([{ status: "failed", tests: ["passed", "failed"] }]);
  expect(summarize(bad)).toEqual({ line: "1 passed, 1 failed", good: false });
});

test("tells of skipped tests", () => {
  const some = reportOf([{ status: "passed", tests: ["passed", "skipped", "todo"] }]);
  expect(summarize(some)).toEqual({ line: "1 passed, 0 failed, 2 skipped", good: true });
});

test("a file that could not be read in counts as a failure", () => {
  const broken = reportOf([
    { status: "passed", tests: ["passed"] },
    { status: "failed", tests: [] },
  ]);
  expect(summarize(broken)).toEqual({ line: "1 passed, 1 failed", good: false });
});

test("a run without a test is not good", () => {
  expect(summarize(reportOf([]))).toEqual({ line: "0 passed, 0 failed", good: false });
});

test("an error outside of every test is not good", () => {
  const stray = reportOf([{ status: "passed", tests: ["passed"] }], false);
  expect(summarize(stray)).toEqual({ line: "1 passed, 0 failed", good: false });
});

test("what is no report is an error", () => {
  expect(() => summarize({ success: true })).toThrow(/numTotalTests/);
});
