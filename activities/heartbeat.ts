import { Context } from "@temporalio/activity";
import type { z } from "zod";

/** Where a long activity is, told to Temporal, so that another attempt goes on from there. */
export interface HeartbeatCursor<T> {
  /**
   * What an earlier attempt of this activity last told, or nothing. Heartbeats are throttled: it may be about a second
   * old, so redoing what came after it must be harmless.
   */
  readonly resume: T | undefined;
  /** Tells where it is. Cheap: the SDK sends the latest at most once per throttle interval. */
  readonly beat: (cursor: T) => void;
  /**
   * Repeats the last cursor until disposed (`using alive = cursor.keepAlive()`), for activities that wait for others
   * longer than their heartbeat timeout. It proves that the process lives, not that the work goes on: give whatever is
   * awaited meanwhile a deadline of its own.
   */
  readonly keepAlive: (intervalMs?: number) => Disposable;
  /** Fires when the activity is cancelled. That is learnt through heartbeats only, so an activity must beat. */
  readonly signal: AbortSignal;
}

/** Half of the shortest heartbeat timeout in use, so that one late timer does not look like a lost worker. */
const KEEP_ALIVE_MS = 1000;

/**
 * The cursor of the running activity.
 *
 * @param schema what earlier attempts have told is checked with it. Details of another shape (written by another
 *   version) count as none: the work starts over, which is slower but safe.
 */
export function heartbeatCursor<T>(schema: z.ZodType<T>): HeartbeatCursor<T> {
  const context = Context.current();
  const details: unknown = context.info.heartbeatDetails;
  const resume = parseDetails(schema, details);
  let latest: T | undefined = resume;
  return {
    resume,
    signal: context.cancellationSignal,
    beat(cursor) {
      latest = cursor;
      context.heartbeat(cursor);
    },
    keepAlive(intervalMs = KEEP_ALIVE_MS) {
      const timer = setInterval(() => context.heartbeat(latest), intervalMs);
      context.heartbeat(latest);
      return { [Symbol.dispose]: () => clearInterval(timer) };
    },
  };
}

function parseDetails<T>(schema: z.ZodType<T>, details: unknown): T | undefined {
  if (details === undefined || details === null) return undefined;
  const parsed = schema.safeParse(details);
  if (parsed.success) return parsed.data;
  Context.current().log.warn("heartbeat details of an earlier attempt have another shape: starting over");
  return undefined;
}
