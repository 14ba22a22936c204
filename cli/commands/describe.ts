import type { Client, WorkflowExecutionDescription } from "@temporalio/client";
import { CommandError, EXIT } from "../exit-codes.ts";
import { isNotFound } from "../problems.ts";
import { commandFor } from "../view/hints.ts";
import type { Hints } from "../view/hints.ts";

/**
 * What the server knows of a move.
 *
 * @throws CommandError when there is no such move.
 */
export async function describeMove(
  client: Client,
  workflowId: string,
  hints: Hints,
  runId?: string,
): Promise<WorkflowExecutionDescription> {
  try {
    return await client.workflow.getHandle(workflowId, runId).describe();
  } catch (error) {
    throw isNotFound(error) ? unknownMove(client, workflowId, hints, error) : error;
  }
}

export function unknownMove(client: Client, workflowId: string, hints: Hints, cause: unknown): CommandError {
  const { namespace } = client.options;
  return new CommandError(
    EXIT.usage,
    `there is no move ${JSON.stringify(workflowId)} in namespace ${namespace}; see: ${commandFor(hints, "list")}`,
    cause,
  );
}
