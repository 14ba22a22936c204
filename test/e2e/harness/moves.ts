import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { WorkflowHandle } from "@temporalio/client";
import proto from "@temporalio/proto";
import { displayKey, logicalClusterKey, prefixRange } from "../../../etcd/keys.ts";
import type { LogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import type { EndDetails } from "../../../workflows/engine/run.ts";
import { abortUpdate, approveUpdate, progressQuery } from "../../../workflows/engine/messages.ts";
import { TASK_QUEUE } from "../../../workflows/engine/names.ts";
import type { MigrationState } from "../../../workflows/engine/state.ts";
import type { logicalClusterMigration } from "../../../workflows/logical-cluster-migration.ts";
import { SHARDS } from "./bed.ts";
import type { Bed } from "./bed.ts";
import { tellOnFailure } from "./on-failure.ts";

export type Move = WorkflowHandle<typeof logicalClusterMigration>;
/** A move of whatever kind. */
export type AnyMove = Pick<WorkflowHandle, "query" | "executeUpdate" | "describe" | "fetchHistory">;
export type Report = Awaited<ReturnType<typeof logicalClusterMigration>>;

const LOOK_EVERY_MS = 20;
const STATE_DEADLINE_MS = 240_000;

/** A dead worker is noticed by the silence of its activities, or by the end of their time: both short here. */
export const IMPATIENT = Object.fromEntries(
  ["lock", "prepareFence"]
    .map((name): [string, object] => [name, { attemptMs: 5_000 }])
    .concat(
      [
        "alignRevisions",
        "copySnapshot",
        "catchUp",
        "follow",
        "verify",
        "awaitRouting",
        "cleanOrigin",
        "finalize",
      ].map((name): [string, object] => [name, { heartbeatMs: 3_000 }]),
    ),
);

/** Starts a move with this input, unchecked as it is: also what is no valid input. */
export async function startMove(
  bed: Bed,
  input: unknown,
  workflowId = `move-${randomUUID()}`,
): Promise<Move> {
  const move = await bed.client.workflow.start<typeof logicalClusterMigration>("logicalClusterMigration", {
    taskQueue: TASK_QUEUE,
    workflowId,
    args: [input],
  });
  return tellOnFailure(bed.client, move, async (state) => await found(bed, state));
}

/** What both shards hold of the move and of its cluster's own object. */
async function found(bed: Bed, state: MigrationState | undefined): Promise<unknown> {
  // `root:team-a (2kx0q8)`, which is all that a state says of it.
  const cluster = state && /\((?<id>\w+)\)$/.exec(state.subject)?.groups?.["id"];
  if (cluster === undefined) return undefined;
  const shards = SHARDS.map(async (name) => {
    const store = bed.store(name);
    const { entries } = await store.read(prefixRange(`${store.prefix}.rehome/`));
    const { entry } = await store.get(logicalClusterKey(store.prefix, cluster));
    const object = entry && (JSON.parse(entry.value.toString()) as LogicalCluster);
    const { annotations, labels } = object?.metadata ?? {};
    const own = entries.map(({ key, value }) => `${displayKey(key)} ${value.toString()}`);
    return [name, { own, annotations, labels, phase: object?.status?.phase }];
  });
  return Object.fromEntries(await Promise.all(shards)) as unknown;
}

/** A whole move. @throws WorkflowFailedError */
export async function runMove(bed: Bed, input: unknown): Promise<Report> {
  return await (await startMove(bed, input)).result();
}

export async function stateOf(move: AnyMove): Promise<MigrationState> {
  return await move.query(progressQuery);
}

/** Tells whether what is looked at has been the same for too long: a walk through many phases may take longer. */
function standstill(): (seen: string) => boolean {
  let last: string | undefined;
  let end = 0;
  return (seen) => {
    if (seen !== last) end = performance.now() + STATE_DEADLINE_MS;
    last = seen;
    return performance.now() > end;
  };
}

/** Waits until the move's own account says that something holds. It can be learnt by asking only. */
export async function untilState(
  move: AnyMove,
  holds: (state: MigrationState) => boolean,
): Promise<MigrationState> {
  const isStuck = standstill();
  for (;;) {
    const state = await stateOf(move);
    if (holds(state)) return state;
    const { phase, status } = state;
    if (isStuck(`${status} in ${phase}`) || ["completed", "failed", "aborted"].includes(status)) {
      throw new Error(`the move is not where it was awaited: ${JSON.stringify(state, undefined, 1)}`);
    }
    await delay(LOOK_EVERY_MS);
  }
}

/** Waits until the move stands before a gate. */
export async function untilGate(move: AnyMove, gate: string): Promise<MigrationState> {
  return await untilState(move, ({ status, waitingFor }) => status === "waiting" && waitingFor === gate);
}

export async function approve(move: AnyMove, gate: string): Promise<string> {
  return await move.executeUpdate(approveUpdate, { args: [{ gate, by: "anna" }] });
}

export async function abort(move: AnyMove): Promise<string> {
  return await move.executeUpdate(abortUpdate, { args: [{ by: "anna", reason: "changed my mind" }] });
}

export interface Failed {
  readonly type: string | undefined;
  readonly message: string;
  readonly nonRetryable: boolean | undefined;
  readonly details: EndDetails | undefined;
}

/** How the move, or an update to it, failed. */
export async function failureOf(promise: Promise<unknown>): Promise<Failed> {
  try {
    await promise;
  } catch (error) {
    const cause = (error as { cause?: unknown }).cause;
    if (!(cause instanceof Error)) throw error;
    const { type, nonRetryable, details } = cause as {
      type?: string;
      nonRetryable?: boolean;
      details?: EndDetails[];
    };
    return { type, nonRetryable, message: cause.message, details: details?.[0] };
  }
  throw new Error("it did not fail");
}

/** Names of the activities that Temporal counts as scheduled or running. */
export async function pendingActivities(move: AnyMove): Promise<string[]> {
  const { raw } = await move.describe();
  return (raw.pendingActivities ?? []).map(({ activityType }) => activityType?.name ?? "?");
}

/** Of an activity that a worker has taken. */
export const STARTED = proto.temporal.api.enums.v1.PendingActivityState.PENDING_ACTIVITY_STATE_STARTED;

/** How many attempts the activities of a move have taken, the most of each name, as the history tells. */
export async function attemptsOf(move: AnyMove): Promise<Map<string, number>> {
  const { events } = await move.fetchHistory();
  const names = new Map<string, string>();
  const attempts = new Map<string, number>();
  for (const event of events ?? []) {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) names.set(String(event.eventId), scheduled.activityType?.name ?? "?");
    const started = event.activityTaskStartedEventAttributes;
    if (!started) continue;
    const name = names.get(String(started.scheduledEventId)) ?? "?";
    attempts.set(name, Math.max(attempts.get(name) ?? 0, started.attempt ?? 1));
  }
  return attempts;
}

/** The events of a move's history, and as one text that shows what their payloads hold: those stand encoded in it. */
export async function historyText(
  move: AnyMove,
): Promise<{ events: number; activities: number; text: string }> {
  const { events } = await move.fetchHistory();
  const text = JSON.stringify(events, (key, value: unknown) =>
    key === "data" && typeof value === "string" ? Buffer.from(value, "base64").toString() : value,
  );
  const activities = (events ?? []).filter((event) => event.activityTaskScheduledEventAttributes).length;
  return { events: events?.length ?? 0, activities, text };
}

/** Waits until an activity runs: workers tell its start at once, the history only its end. */
export async function untilPending(move: AnyMove, activity: string): Promise<void> {
  const isStuck = standstill();
  for (;;) {
    const { raw } = await move.describe();
    const running = (raw.pendingActivities ?? []).filter(({ state }) => state === STARTED);
    const names = running.map(({ activityType }) => activityType?.name);
    if (names.includes(activity)) return;
    if (isStuck(names.join())) throw new Error(`${activity} was never seen running`);
    await delay(LOOK_EVERY_MS);
  }
}
