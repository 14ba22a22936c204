import { z } from "zod";
import { commonInput, durationMs, siteName, timeoutsOf } from "./common.ts";

/** The phases of `controlPlaneMigration` in order; each can be a gate. */
export const CONTROL_PLANE_PHASES = [
  "ExposeSourcePeers",
  "CopySecrets",
  "JoinDestinationPeers",
  "StartDestinationKubeAPIServer",
  "BridgeVPN",
  "SwitchDNS",
  "Soak",
  "HandOverControllers",
  "DrainSourceKubeAPIServer",
  "CommitQuorum",
  "RemoveSourcePeers",
  "FinishBackups",
  "CleanUpSource",
] as const;

/** Whose time limits can be set: all that the workflow calls when it knows its input. */
export const CONTROL_PLANE_ACTIVITIES = [
  "claimControlPlane",
  "releaseControlPlane",
  "exposeSourcePeers",
  "hideSourcePeers",
  "setRecordTtl",
  "restoreRecordTtl",
  "copySecrets",
  "exposeDestinationPeers",
  "clearDestinationSeed",
  "joinDestinationPeers",
  "removeDestinationPeers",
  "startDestinationApiServers",
  "stopDestinationApiServers",
  "bridgeVpn",
  "dismantleVpnBridge",
  "switchDns",
  "switchDnsBack",
  "moveVpnClients",
  "soak",
  "stopSourceControllers",
  "handOverControllers",
  "returnControllers",
  "drainSourceApiServers",
  "restartSourceApiServers",
  "commitQuorum",
  "removeSourcePeers",
  "finishBackups",
  "cleanUpSource",
] as const;

export const controlPlaneMigrationInput = commonInput.extend({
  controlPlane: siteName.describe("Name of the control plane in the worker's configuration"),
  to: siteName.describe("Seed to move it to"),
  from: siteName.optional().describe("Seed that it is expected on; the move is refused when it is elsewhere"),
  gates: z
    .array(z.enum(CONTROL_PLANE_PHASES))
    .max(CONTROL_PLANE_PHASES.length)
    .default([])
    .describe("Phases before which the move waits for the update `approve`"),
  soakMs: durationMs
    .default(60_000)
    .describe(
      "How long both seeds serve together, proven healthy all the time, before anything is handed over",
    ),
  maxRoundTripMs: z
    .number()
    .positive()
    .max(500)
    .default(180)
    .describe("Refuse when a round trip between the seeds takes longer; etcd's own timers may allow less"),
  maxLagRevisions: z
    .number()
    .int()
    .positive()
    .default(1000)
    .describe("A member counts as in step when it is behind the leader by fewer revisions than this"),
  switchTtlSeconds: z
    .number()
    .int()
    .min(1)
    .max(600)
    .default(5)
    .describe(
      "TTL of the DNS record while the move runs; set one old TTL ahead of the switch, restored at the end",
    ),
  drainMs: durationMs
    .default(5 * 60_000)
    .describe("Longest wait for the clients of the source's API servers to go by themselves"),
  timeouts: timeoutsOf(CONTROL_PLANE_ACTIVITIES),
});

export type ControlPlaneMigrationInput = z.infer<typeof controlPlaneMigrationInput>;
