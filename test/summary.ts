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

/** How a run of the tests went, in one line. */
export interface Summary {
  readonly line: string;
  /** Something ran, nothing failed, and vitest itself says so too. */
  readonly good: boolean;
}

/**
 * `120 passed, 0 failed`, with `, 2 skipped` where tests were skipped. A file that failed as a whole, so that none of
 * its tests is known, counts as one failure.
 *
 * @param json what vitest's reporter `json` has written.
 * @throws Error when it is something else.
 */
export function summarize(json: unknown): Summary {
  const { success, numTotalTests, numPassedTests, numFailedTests, testResults } = report.parse(json);
  const brokenFiles = testResults.filter(
    ({ status, assertionResults }) =>
      status === "failed" && !assertionResults.some((test) => test.status === "failed"),
  ).length;
  const failed = numFailedTests + brokenFiles;
  const skipped = numTotalTests - numPassedTests - numFailedTests;
  const line = `${numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
  return { line, good: success && failed === 0 && numPassedTests > 0 };
}

if (import.meta.main) {
  const [file = ""] = process.argv.slice(2);
  const { line, good } = summarize(JSON.parse(readFileSync(file, "utf8")));
  process.stdout.write(`${line}\n`);
  if (!good) process.exitCode = 1;
}
