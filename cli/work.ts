import type { Client, WorkflowExecutionDescription } from "@temporalio/client";
import type { LoadedDataConverter, Payload } from "@temporalio/common";
import { z } from "zod";
import { plainWords } from "../workflows/engine/failures.ts";
import { DRY_RUN_PREFIX } from "../workflows/engine/names.ts";
import type { LiveFigures, Work } from "./view/sight.ts";

/**
 * What an activity tells with its heartbeat: the fields of the signal `progressed`. Heartbeats cost no history, so they
 * are as fresh as a second. Without `phase` they count for the phase that runs.
 */
const beat = z.looseObject({
  phase: z.string().optional(),
  done: z.number().optional(),
  total: z.number().optional(),
  unit: z.string().optional(),
  bytes: z.number().optional(),
  lagMs: z.number().optional(),
  lagRevisions: z.number().optional(),
});

type PendingActivity = NonNullable<WorkflowExecutionDescription["raw"]["pendingActivities"]>[number];

/** `temporal.api.enums.v1.PendingActivityState`. */
const SCHEDULED = 1;

/** Rates are taken over this time, so that they neither jump with each beat nor lag far behind. */
const RATE_OVER_MS = 5000;

/** Reads the activities of a description that are not done, and derives rates from one description to the next. */
export class WorkReader {
  readonly #client: Client;
  readonly #history = new Map<string, { done: number; at: number }[]>();

  constructor(client: Client) {
    this.#client = client;
  }

  async read({ raw }: WorkflowExecutionDescription): Promise<readonly Work[]> {
    return await Promise.all(
      (raw.pendingActivities ?? []).map(async (activity) => await this.#workOf(activity)),
    );
  }

  async #workOf(activity: PendingActivity): Promise<Work> {
    const converter = this.#client.options.loadedDataConverter;
    const { attempt, scheduledTime, lastFailure, lastHeartbeatTime } = activity;
    const { failureConverter, payloadConverter } = converter;
    const failed = lastFailure ? failureConverter.failureToError(lastFailure, payloadConverter) : undefined;
    const details = await decode(converter, activity.heartbeatDetails?.payloads?.[0]);
    const figures = this.#figuresOf(activity.activityId ?? "", details, millis(lastHeartbeatTime));
    return {
      name: (activity.activityType?.name ?? "an activity").replace(DRY_RUN_PREFIX, ""),
      attempt: attempt ?? 1,
      scheduledAt: millis(scheduledTime) ?? Date.now(),
      state:
        Number(activity.state) !== SCHEDULED
          ? "runs"
          : (attempt ?? 1) > 1
            ? "will be tried again"
            : "waits for a worker",
      ...(failed === undefined ? {} : { lastFailure: plainWords(failed) }),
      ...(figures === undefined ? {} : { figures }),
    };
  }

  #figuresOf(id: string, details: unknown, at: number | undefined): LiveFigures | undefined {
    const parsed = beat.safeParse(details);
    if (!parsed.success || at === undefined || Object.keys(parsed.data).length === 0) return undefined;
    const { phase, done, total, unit, bytes, lagMs, lagRevisions } = parsed.data;
    const perSecond = done === undefined ? undefined : this.#rate(id, done, at);
    const given = { phase, done, total, unit, bytes, lagMs, lagRevisions, perSecond };
    return { at, ...defined(given) };
  }

  #rate(id: string, done: number, at: number): number | undefined {
    const seen = this.#history.get(id) ?? [];
    if (seen.at(-1)?.at !== at) seen.push({ done, at });
    const recent = seen.filter((one, index) => at - one.at <= RATE_OVER_MS || index === seen.length - 2);
    this.#history.set(id, recent);
    const [first] = recent;
    if (first === undefined || first.at >= at || done < first.done) return undefined;
    return ((done - first.done) / (at - first.at)) * 1000;
  }
}

/** Undefined for what cannot be read: a heartbeat is only a display. */
async function decode(converter: LoadedDataConverter, payload: Payload | undefined): Promise<unknown> {
  if (payload === undefined) return undefined;
  try {
    let payloads = [payload];
    for (const codec of converter.payloadCodecs.toReversed()) payloads = await codec.decode(payloads);
    const [plain] = payloads;
    return plain && converter.payloadConverter.fromPayload(plain);
  } catch {
    return undefined;
  }
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Without the fields that are undefined, as `exactOptionalPropertyTypes` wants it. */
function defined<T extends object>(whole: T): Defined<T> {
  return Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== undefined)) as Defined<T>;
}

type Timestamp = PendingActivity["scheduledTime"];

/** Undefined for a time that is not set. */
function millis(time: Timestamp): number | undefined {
  if (time === undefined || time === null) return undefined;
  return Number(time.seconds ?? 0) * 1000 + Math.floor((time.nanos ?? 0) / 1_000_000);
}
