import { randomUUID } from "node:crypto";
import type { WorkflowHandle } from "@temporalio/client";
import { TASK_QUEUE } from "../../../workflows/engine/names.ts";
import type { controlPlaneMigration } from "../../../workflows/control-plane-migration.ts";
import { controlPlane } from "../../../testbed/control-plane/names.ts";
import { tellOnFailure } from "../harness/on-failure.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";

export type ControlPlaneMove = WorkflowHandle<typeof controlPlaneMigration>;

/** As short as the bed's TTL and leases allow, so that a test is about the move. */
const BRISK = { soakMs: 2_000, switchTtlSeconds: 1, drainMs: 3_000 };

/** The steps in which tests kill the worker, in the order of a move. */
export const KILLED_IN = [
  "joinDestinationPeers",
  "soak",
  "stopSourceControllers",
  "handOverControllers",
  "commitQuorum",
  "removeSourcePeers",
];

/** A dead worker is noticed by the silence of its activities. */
export const IMPATIENT = Object.fromEntries(
  ["exposeSourcePeers", ...KILLED_IN].map((name) => [name, { heartbeatMs: 3_000 }]),
);

/** Starts a move with this input, unchecked as it is: also what is no valid input. */
export async function startControlPlaneMove(bed: ControlPlaneBed, input: unknown): Promise<ControlPlaneMove> {
  const move = await bed.client.workflow.start<typeof controlPlaneMigration>("controlPlaneMigration", {
    taskQueue: TASK_QUEUE,
    workflowId: `move-${randomUUID()}`,
    args: [input],
  });
  return tellOnFailure(bed.client, move);
}

export async function startTo(
  bed: ControlPlaneBed,
  to: SeedName,
  more: object = {},
): Promise<ControlPlaneMove> {
  return await startControlPlaneMove(bed, { controlPlane, to, ...BRISK, ...more });
}
