import { WorkflowFailedError } from "@temporalio/client";
import type { WorkflowHandle } from "@temporalio/client";
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from "@temporalio/common";
import { plainWords } from "../workflows/engine/failures.ts";
import { EXIT } from "./exit-codes.ts";
import type { ExitCode } from "./exit-codes.ts";
import type { Outcome } from "./view/sight.ts";

/**
 * How the move ended; waits for its end.
 *
 * @throws what the client throws when Temporal cannot be asked.
 */
export async function outcomeOf(handle: WorkflowHandle): Promise<Outcome> {
  try {
    return { status: "completed", result: await handle.result() };
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    return failedOutcome(error.cause);
  }
}

function failedOutcome(cause: Error | undefined): Outcome {
  if (cause instanceof ApplicationFailure) {
    const { type, message, details } = cause;
    return {
      status: type === "Aborted" ? "aborted" : "failed",
      message: message === "" ? "no reason is given" : message,
      ...(type === undefined || type === null ? {} : { type }),
      ...(details?.[0] === undefined ? {} : { details: details[0] }),
    };
  }
  if (cause instanceof CancelledFailure) {
    const [details] = cause.details;
    return { status: "cancelled", message: cause.message, ...(details === undefined ? {} : { details }) };
  }
  if (cause instanceof TerminatedFailure) {
    return {
      status: "terminated",
      message: `${cause.message}. Nothing was undone: bring it to its end with temporal workflow reset (docs/operations.md), before another is started`,
    };
  }
  if (cause instanceof TimeoutFailure) {
    return { status: "timed out", message: "the workflow ran into its own time limit; nothing was undone" };
  }
  return { status: "failed", message: plainWords(cause) };
}

/** What `watch` exits with. */
export function exitCodeOf({ status }: Outcome): ExitCode {
  if (status === "completed") return EXIT.ok;
  return status === "aborted" || status === "cancelled" ? EXIT.aborted : EXIT.failed;
}
