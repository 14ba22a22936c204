import { WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import type { AbortInput, ApproveInput, PauseInput, ResumeInput } from "../../inputs/messages.ts";
import { applicationFailure } from "../../workflows/engine/failures.ts";
import { CommandError, EXIT } from "../exit-codes.ts";
import { isNotFound, isUnreachable, serverWords } from "../problems.ts";
import { commandFor, START_A_WORKER } from "../view/hints.ts";
import type { Hints } from "../view/hints.ts";
import { oneLine } from "../view/format.ts";
import { describeMove } from "./describe.ts";

/** The updates that every kind answers, with their arguments. */
export type Message =
  | { readonly name: "approve"; readonly argument: ApproveInput }
  | { readonly name: "pause"; readonly argument: PauseInput }
  | { readonly name: "resume"; readonly argument: ResumeInput }
  | { readonly name: "abort"; readonly argument: AbortInput };

/** An update is answered by a worker; one that does not in this time is not there. */
const ANSWER_WITHIN_MS = 15_000;

/**
 * Sends a message to a move.
 *
 * @returns what the move answers, in one sentence.
 * @throws CommandError: the reason of a refusal; that the move has ended; that nobody answered.
 */
export async function sendMessage(
  client: Client,
  workflowId: string,
  { name, argument }: Message,
  hints: Hints,
): Promise<string> {
  // Tells an unknown move from one that has ended, which the update itself does not.
  const { status } = await describeMove(client, workflowId, hints);
  if (status.name !== "RUNNING" && status.name !== "PAUSED") {
    throw new CommandError(EXIT.failed, `${name} refused: ${ended(workflowId, hints)}`);
  }
  try {
    const answer = await client.withDeadline(
      Date.now() + ANSWER_WITHIN_MS,
      async () =>
        await client.workflow
          .getHandle(workflowId)
          .executeUpdate<string, [typeof argument]>(name, { args: [argument] }),
    );
    return oneLine(answer);
  } catch (error) {
    throw explainUpdate(error, name, workflowId, hints);
  }
}

function explainUpdate(error: unknown, name: string, workflowId: string, hints: Hints): unknown {
  if (error instanceof WorkflowUpdateFailedError) {
    const reason = applicationFailure(error.cause)?.message ?? error.cause?.message ?? error.message;
    return new CommandError(EXIT.failed, `${name} refused: ${oneLine(reason)}`, error);
  }
  if (isNotFound(error))
    return new CommandError(EXIT.failed, `${name} refused: ${ended(workflowId, hints)}`, error);
  if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError || isUnreachable(error)) {
    return new CommandError(
      EXIT.unavailable,
      `no worker answered ${name} within ${ANSWER_WITHIN_MS / 1000} s, so whether it will take effect is not known. ` +
        `Is a worker running? ${START_A_WORKER}. Then look: ${commandFor(hints, "watch", workflowId)}`,
      error,
    );
  }
  return new CommandError(EXIT.failed, `${name} failed: ${serverWords(error)}`, error);
}

function ended(workflowId: string, hints: Hints): string {
  return `${workflowId} has ended. What happened: ${commandFor(hints, "report", workflowId)}`;
}
