import { inspect } from "node:util";
import type { Client, WorkflowHandle } from "@temporalio/client";
import { TestRunner, onTestFailed } from "vitest";
import { WorkReader } from "../../../cli/work.ts";
import { progressQuery } from "../../../workflows/engine/messages.ts";

/** When the test that starts a move fails, it says where the move stands: a log of CI holds nothing else of it. */
export function tellOnFailure<T extends WorkflowHandle>(client: Client, move: T): T {
  // What a hook starts has no test.
  if (TestRunner.getCurrentTest() !== undefined) {
    onTestFailed(async () => {
      process.stderr.write(`${move.workflowId}: ${await accountOf(client, move)}\n`);
    });
  }
  return move;
}

async function accountOf(client: Client, move: WorkflowHandle): Promise<string> {
  try {
    const description = await move.describe();
    const work = await new WorkReader(client).read(description);
    const state = await move.query(progressQuery).catch(String);
    const account = { status: description.status.name, runId: description.runId, work, state };
    return inspect(account, { depth: 4, compact: 8, breakLength: 160 });
  } catch (error) {
    return `nothing can be learnt of it: ${String(error)}`;
  }
}
