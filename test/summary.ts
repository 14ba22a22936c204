import { readFileSync } from "node:fs";
import { z } from "zod";

/** The fields that matter of what vitest's reporter `json` writes. */
const report = z.object({
  success: z.boolean(),
  numTotalTests: z.number(),
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  testResults: z.array(
    z.object({ status: z.string(), assertionResults: z.array(z.object({ status: z.string() })) }),
  ),
});

/** How the tests went, in one line. */
export interface Summary {
  readonly line: string;
  /** Something ran, nothing failed, and vitest itself says so of each run. */
  readonly good: boolean;
}

/**
 * `120 passed, 0 failed`, with `, 2 skipped` where tests were skipped. A file that failed as a whole, so that none of
 * its tests is known, counts as one failure.
 *
 * @param reports what vitest's reporter `json` has written in each run.
 * @throws Error when one is something else.
 */
export function summarize(...reports: readonly unknown[]): Summary {
  const runs = reports.map((json) => report.parse(json));
  const files = runs.flatMap(({ testResults }) => testResults);
  const brokenFiles = files.filter(
    ({ status, assertionResults }) =>
      status === "failed" && !assertionResults.some((test) => test.status === "failed"),
  ).length;
  const sum = (of: (run: (typeof runs)[number]) => number) => runs.reduce((total, run) => total + of(run), 0);
  const passed = sum((run) => run.numPassedTests);
  const failedTests = sum((run) => run.numFailedTests);
  const skipped = sum((run) => run.numTotalTests) - passed - failedTests;
  const failed = failedTests + brokenFiles;
  const line = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
  return { line, good: runs.every((run) => run.success && run.numPassedTests > 0) && failed === 0 };
}

if (import.meta.main) {
  const reports = process.argv.slice(2).map((file): unknown => JSON.parse(readFileSync(file, "utf8")));
  const { line, good } = summarize(...reports);
  process.stdout.write(`${line}\n`);
  if (!good) process.exitCode = 1;
}
