import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { createPreflight } from "./preflight.ts";
import type { ControlPlaneActivities } from "./types.ts";

const nothing = async () => undefined;
const never = async () => ({ switchedAt: 0 });

/** The steps of a dry run: Preflight has read all that the plan tells, and nothing is written anywhere. */
export function createControlPlanePlan(sites: ControlPlaneSites): ControlPlaneActivities {
  return {
    preflightControlPlane: createPreflight(sites),
    claimControlPlane: nothing,
    releaseControlPlane: nothing,
    exposeSourcePeers: async () => [],
    hideSourcePeers: nothing,
    setRecordTtl: async () => ({ at: 0 }),
    restoreRecordTtl: nothing,
    copySecrets: async () => ({ secrets: 0, objects: 0, digest: "" }),
    exposeDestinationPeers: async () => [],
    clearDestinationSeed: nothing,
    joinDestinationPeers: async () => ({ members: [], roundTripMs: 0 }),
    removeDestinationPeers: nothing,
    startDestinationApiServers: async () => ({ url: "", values: [] }),
    stopDestinationApiServers: nothing,
    bridgeVpn: nothing,
    dismantleVpnBridge: nothing,
    switchDns: never,
    switchDnsBack: never,
    moveVpnClients: nothing,
    soak: async () => ({ checks: 0, proofs: [] }),
    stopSourceControllers: async () => ({ stopped: [], orderedAt: 0 }),
    handOverControllers: async () => ({ stopped: [], withoutControllersMs: 0 }),
    returnControllers: nothing,
    drainSourceApiServers: async () => ({ longRunning: 0, waitedMs: 0 }),
    restartSourceApiServers: nothing,
    commitQuorum: async () => ({ proofs: [], evenMs: {}, committedAt: 0 }),
    removeSourcePeers: async () => ({ voters: [] }),
    finishBackups: nothing,
    cleanUpSource: async () => [],
  };
}
