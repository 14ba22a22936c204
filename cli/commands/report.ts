import type { Client } from "@temporalio/client";
import { CommandError, EXIT } from "../exit-codes.ts";
import { kindOf } from "../kinds.ts";
import { outcomeOf } from "../outcome.ts";
import { commandFor } from "../view/hints.ts";
import type { Hints } from "../view/hints.ts";
import { failureLines, reportLines } from "../view/report.ts";
import type { Outcome } from "../view/sight.ts";
import { describeMove } from "./describe.ts";

/**
 * How an ended move went.
 *
 * @param runId which of several moves of that id; the latest when left out.
 * @throws CommandError when there is no such move, or when it has not ended.
 */
export async function reportOf(
  client: Client,
  workflowId: string,
  hints: Hints,
  runId?: string,
): Promise<{ readonly kind: string; readonly outcome: Outcome }> {
  const { status, type, raw } = await describeMove(client, workflowId, hints, runId);
  if (status.name === "RUNNING" || status.name === "PAUSED") {
    const watch = commandFor(hints, "watch", workflowId);
    throw new CommandError(
      EXIT.failed,
      `${workflowId} has not ended, so there is no report yet. Watch it: ${watch}`,
    );
  }
  const execution = raw.workflowExecutionInfo?.execution?.runId ?? undefined;
  return { kind: type, outcome: await outcomeOf(client.workflow.getHandle(workflowId, execution)) };
}

/** The same as text. */
export function outcomeLines(kind: string, outcome: Outcome): string[] {
  if (outcome.status !== "completed") return failureLines(outcome);
  const { result } = outcome;
  const isObject = typeof result === "object" && result !== null;
  return reportLines(
    result,
    isObject ? kindOf(kind)?.headline(result as Record<string, unknown>) : undefined,
  );
}

/** The same as JSON: the bare result, or how it failed. */
export function outcomeJson(outcome: Outcome): string {
  return JSON.stringify(outcome.status === "completed" ? outcome.result : outcome, undefined, 2);
}
