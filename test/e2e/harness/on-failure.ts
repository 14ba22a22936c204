import { inspect } from "node:util";
import type { Client, WorkflowHandle } from "@temporalio/client";
import { TestRunner, onTestFailed } from "vitest";
import { WorkReader } from "../../../cli/work.ts";
import { progressQuery } from "../../../workflows/engine/messages.ts";
import type { MigrationState } from "../../../workflows/engine/state.ts";

const LAST_EVENTS = 20;

/**
 * When the test that starts a move fails, it says where the move stands: a log of CI holds nothing else of it.
 * @param found what else there is to see, outside Temporal
 */
export function tellOnFailure<T extends WorkflowHandle>(
  client: Client,
  move: T,
  found: (state: MigrationState | undefined) => Promise<unknown> = async () => undefined,
): T {
  // What a hook starts has no test.
  if (TestRunner.getCurrentTest() !== undefined) {
    onTestFailed(async () => {
      process.stderr.write(`${move.workflowId}: ${await accountOf(client, move, found)}\n`);
    });
  }
  return move;
}

async function accountOf(
  client: Client,
  move: WorkflowHandle,
  found: (state: MigrationState | undefined) => Promise<unknown>,
): Promise<string> {
  try {
    const description = await move.describe();
    const work = await new WorkReader(client).read(description);
    const state = await move.query(progressQuery).catch(() => undefined);
    const { events } = await move.fetchHistory();
    const last = events?.slice(-LAST_EVENTS).map(({ attributes }) => attributes);
    const account = {
      status: description.status.name,
      runId: description.runId,
      work,
      state,
      last,
      found: await found(state).catch(String),
    };
    return inspect(account, { depth: 5, compact: 8, breakLength: 160 });
  } catch (error) {
    return `nothing can be learnt of it: ${String(error)}`;
  }
}
