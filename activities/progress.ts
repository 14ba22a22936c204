import { Context } from "@temporalio/activity";
import type { ProgressedInput } from "../inputs/messages.ts";

/** Figures of a long activity at one moment. */
export type ProgressFigures = Omit<ProgressedInput, "phase">;

/** The first report comes after this time, each further one after twice the time of the one before. */
const FIRST_REPORT_MS = 5_000;

/**
 * Tells the workflow how far the running activity is. Each signal adds some four events to the history, so the times
 * between them double: about 15 signals in a day, whatever moves. Counted from when the activity was first scheduled,
 * so that further attempts do not start to talk anew.
 *
 * @param phase the phase that the figures are shown with.
 * @returns a function to be called as often as is convenient; it never throws and need not be awaited.
 */
export function progressReporter(phase: string): (figures: ProgressFigures) => void {
  const context = Context.current();
  const { info, log } = context;
  const { scheduledTimestampMs } = info;
  const execution = info.workflowExecution;
  let dueMs = nextDue(Date.now() - scheduledTimestampMs);
  return (figures) => {
    const elapsedMs = Date.now() - scheduledTimestampMs;
    if (elapsedMs < dueMs || execution === undefined) return;
    dueMs = nextDue(elapsedMs);
    const message: ProgressedInput = { phase, ...figures };
    context.client.workflow
      .getHandle(execution.workflowId, execution.runId)
      .signal("progressed", message)
      // Only a display: a report that is lost is not worth failing a copy.
      .catch((error: unknown) => log.debug("a progress report was not delivered", { error: String(error) }));
  };
}

/** The next time after `elapsedMs` at which a report is due. */
export function nextDue(elapsedMs: number): number {
  let due = FIRST_REPORT_MS;
  while (due <= elapsedMs) due *= 2;
  return due;
}
