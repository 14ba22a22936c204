import type { Move } from "../harness/moves.ts";

/** A span of time, ms since the epoch. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

interface Time {
  readonly seconds?: { toNumber(): number } | null;
  readonly nanos?: number | null;
}

/**
 * When a move's Cutover may have had its fence up before the last attempt: those that came back, and those that were
 * tried again. On a busy machine not every attempt makes it within the budget. The report of a move tells the times of
 * the last attempt only, Temporal's history the rest.
 */
export async function earlierCutovers(move: Move): Promise<Span[]> {
  const { events } = await move.fetchHistory();
  const scheduled = new Map<string, number>();
  const spans: Span[] = [];
  for (const event of events ?? []) {
    const at = millisecondsOf(event.eventTime);
    if (event.activityTaskScheduledEventAttributes?.activityType?.name === "cutover") {
      scheduled.set(String(event.eventId), at);
    }
    const started = event.activityTaskStartedEventAttributes;
    const retried = (started?.attempt ?? 1) > 1 ? started : undefined;
    const ended = retried ?? event.activityTaskFailedEventAttributes;
    const from = scheduled.get(String(ended?.scheduledEventId));
    if (from !== undefined) spans.push({ from, until: at });
  }
  return spans;
}

function millisecondsOf(time: Time | null | undefined): number {
  return (time?.seconds?.toNumber() ?? 0) * 1000 + (time?.nanos ?? 0) / 1e6;
}
