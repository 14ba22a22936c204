import { ActivityCancellationType, proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { ActivityOptions } from "@temporalio/workflow";
import { DRY_RUN_PREFIX, followQueue, transferQueue } from "./names.ts";

/**
 * How a call is limited and tried again. Stands once, with the reason, for all kinds.
 *
 * Whether an error is tried again at all is not decided here but where it is understood: `activities/classify.ts`.
 */
export type RetryClass = "read" | "mutate" | "wait" | "transfer" | "follow" | "cutover";

interface ClassOptions extends Pick<
  ActivityOptions,
  "startToCloseTimeout" | "scheduleToCloseTimeout" | "heartbeatTimeout" | "retry"
> {
  readonly queue: keyof typeof QUEUES;
}

const QUEUES = { steps: (own: string) => own, transfer: transferQueue, follow: followQueue };

/** Only silence counts as failure. An outage of a store is ridden out for days, because the cursor keeps the work done. */
const UNTIL_DONE = {
  startToCloseTimeout: "24 hours",
  scheduleToCloseTimeout: "3 days",
  heartbeatTimeout: "15 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "1 minute" },
} as const;

export const RETRY_CLASSES: Record<RetryClass, ClassOptions> = {
  // A read changes nothing, so it is tried often; an answer that does not come in minutes will not come.
  read: {
    queue: "steps",
    startToCloseTimeout: "30 seconds",
    scheduleToCloseTimeout: "10 minutes",
    retry: { initialInterval: "200 ms", backoffCoefficient: 2, maximumInterval: "10 seconds" },
  },
  // Reads, compares, acts and reads again, so a repetition is harmless. The long total rides out the restart of a
  // server; giving up sooner would undo a move for a hiccup.
  mutate: {
    queue: "steps",
    startToCloseTimeout: "60 seconds",
    scheduleToCloseTimeout: "30 minutes",
    retry: { initialInterval: "500 ms", backoffCoefficient: 2, maximumInterval: "30 seconds" },
  },
  // Waits for something that others do. The heartbeat tells a slow system from a lost worker, and carries the cancel.
  wait: {
    queue: "steps",
    startToCloseTimeout: "30 minutes",
    scheduleToCloseTimeout: "1 hour",
    heartbeatTimeout: "10 seconds",
    retry: { initialInterval: "500 ms", backoffCoefficient: 1.5, maximumInterval: "10 seconds" },
  },
  // Moves bulk data, for hours if need be. Its own queue, so that no cutover waits behind it for a free slot.
  transfer: { queue: "transfer", ...UNTIL_DONE },
  // Goes on beside other steps, for as long as a person is waited for: its end would be that of the move. Its own queue, so
  // that no copy, and no cleanup, waits for that person too.
  follow: { queue: "follow", ...UNTIL_DONE, scheduleToCloseTimeout: "365 days" },
  // Users wait while it runs. A lost worker must be noticed in seconds, and the next attempt start at once. It has no
  // total limit: running out of attempts would leave a fence up with nobody in charge.
  cutover: {
    queue: "steps",
    startToCloseTimeout: "60 seconds",
    heartbeatTimeout: "2 seconds",
    retry: { initialInterval: "100 ms", backoffCoefficient: 1.5, maximumInterval: "1 second" },
  },
};

/** Time limits that an input may set for one activity, in ms. */
export interface Limits {
  /** Longest time of one attempt. */
  readonly attemptMs?: number | undefined;
  /** Longest time of all attempts together. */
  readonly totalMs?: number | undefined;
  readonly heartbeatMs?: number | undefined;
}

/** How one activity is called. The summary is what a person reads in the history instead of the activity's name. */
export interface Step<I> {
  readonly class: RetryClass;
  readonly summary: string | ((input: I) => string);
  readonly limits?: Limits;
}

type Activity = (input: never) => Promise<unknown>;
type InputOf<F> = F extends (input: infer I) => Promise<unknown> ? I : never;

/** A line for each activity of the kind: a forgotten one does not compile. */
export type StepTable<A extends Record<keyof A, Activity>> = { readonly [K in keyof A]: Step<InputOf<A[K]>> };

/**
 * The activities of a kind as functions that a phase calls.
 *
 * @param dryRun calls the implementations that only read and plan.
 * @param table class and summary of each activity.
 * @param limits time limits from the input, by activity name; they replace those of the table and of the class.
 */
export function activitiesFor<A extends Record<keyof A, Activity>>(
  dryRun: boolean,
  table: StepTable<A>,
  limits: { readonly [K in keyof A]?: Limits | undefined } = {},
): A {
  const steps = {} as Record<keyof A, (input: unknown) => Promise<unknown>>;
  for (const name of Object.keys(table) as (keyof A & string)[]) {
    const step = table[name] as Step<unknown>;
    const type = dryRun ? `${DRY_RUN_PREFIX}${name}` : name;
    steps[name] = (input) => {
      const activities = proxyActivities<Record<string, (input: unknown) => Promise<unknown>>>(
        optionsOf(step, input, { ...step.limits, ...limits[name] }),
      );
      const call = activities[type];
      if (call === undefined) throw new TypeError(`no proxy for activity ${type}`);
      return call(input);
    };
  }
  // The loop has made one function for each name of A; that it has A's types is what the table was checked for.
  return steps as unknown as A;
}

function optionsOf(step: Step<unknown>, input: unknown, limits: Limits): ActivityOptions {
  const { queue, ...options } = RETRY_CLASSES[step.class];
  const own = workflowInfo().taskQueue;
  return {
    ...options,
    ...(limits.attemptMs === undefined ? {} : { startToCloseTimeout: limits.attemptMs }),
    ...(limits.totalMs === undefined ? {} : { scheduleToCloseTimeout: limits.totalMs }),
    ...(limits.heartbeatMs === undefined ? {} : { heartbeatTimeout: limits.heartbeatMs }),
    // Not the default in effect, whatever the documentation of the SDK says: without it a cancelled activity counts as
    // ended at once, and the undo would run beside it.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    taskQueue: QUEUES[queue](own),
    summary: typeof step.summary === "function" ? step.summary(input) : step.summary,
  };
}
