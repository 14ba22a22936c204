import type { Reporter, TestCase } from "vitest/node";

/** Tells a failure when it happens: vitest does so at the end, which a run that is cut off never sees. */
export default class AtOnce implements Reporter {
  onTestCaseResult(test: TestCase): void {
    for (const { message, diff, stack } of test.result().errors ?? []) {
      const where = `${test.module.relativeModuleId} > ${test.fullName}`;
      process.stdout.write(`${where}\n${stack ?? message}\n${diff ?? ""}\n`);
    }
  }
}
