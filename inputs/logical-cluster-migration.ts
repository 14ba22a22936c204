import { z } from "zod";
import { commonInput, durationMs, siteName, timeoutsOf } from "./common.ts";

/** The phases of `logicalClusterMigration` in order; each can be a gate. */
export const LOGICAL_CLUSTER_PHASES = [
  "AlignRevisions",
  "CopySnapshot",
  "Tail",
  "Verify",
  "Cutover",
  "AwaitRouting",
  "OriginCleanup",
  "Finalize",
] as const;

/** Whose time limits can be set: all that the workflow calls when it knows its input. */
export const LOGICAL_CLUSTER_ACTIVITIES = [
  "lock",
  "alignRevisions",
  "copySnapshot",
  "catchUp",
  "follow",
  "verify",
  "takeTurn",
  "prepareFence",
  "cutover",
  "awaitRouting",
  "cleanOrigin",
  "finalize",
  "dismantleFence",
  "clearDestination",
  "unlock",
] as const;

/** A workspace path (`root:team-a`) or the id of a logical cluster (`2x8f0q1m3n4k5j6h`). */
const logicalCluster = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)*$/,
    "give a workspace path such as root:team-a, or the id of a logical cluster (spec.cluster of its Workspace)",
  )
  .max(500);

export const logicalClusterMigrationInput = commonInput.extend({
  logicalCluster: logicalCluster.describe("Workspace path or logical cluster id to move"),
  to: siteName.describe("Shard to move it to"),
  from: siteName
    .optional()
    .describe("Shard that it is expected on; the move is refused when it is elsewhere"),
  gates: z
    .array(z.enum(LOGICAL_CLUSTER_PHASES))
    .max(LOGICAL_CLUSTER_PHASES.length)
    .default([])
    .describe("Phases before which the move waits for the update `approve`"),
  fence: z
    .enum(["auto", "migration", "inactive"])
    .default("auto")
    .describe("How writes are stopped during the cutover; auto takes `migration` where kcp's gate is on"),
  fenceBudgetMs: durationMs
    .min(200)
    .max(60_000)
    .default(5_000)
    .describe("The fence is taken off again when the switch is not done in this time"),
  revisions: z
    .enum(["align", "require", "accept-relist"])
    .default("align")
    .describe(
      "align: raise the destination's revision so that watches resume; require: refuse unless it is ahead already; accept-relist: leave it, clients may have to list again",
    ),
  maxRevisionGap: z
    .number()
    .int()
    .positive()
    .default(5_000_000)
    .describe("Refuse to align over more revisions than this (about 4,000 a second can be bridged)"),
  timeouts: timeoutsOf(LOGICAL_CLUSTER_ACTIVITIES),
});

export type LogicalClusterMigrationInput = z.infer<typeof logicalClusterMigrationInput>;
