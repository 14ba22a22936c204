import { activityInfo } from "@temporalio/activity";
import { ClaimedError } from "../../hosting/types.ts";
import type { Side } from "../../hosting/types.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { apiOf, openControlPlane, step, undoStep } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities } from "./types.ts";
import { makeBridge, moveClients, probeVpn, removeBridge } from "./vpn.ts";
import { beginWork } from "../work.ts";

type Steps = Pick<
  ControlPlaneActivities,
  | "claimControlPlane"
  | "releaseControlPlane"
  | "copySecrets"
  | "clearDestinationSeed"
  | "bridgeVpn"
  | "dismantleVpnBridge"
  | "moveVpnClients"
  | "handOverControllers"
  | "returnControllers"
  | "finishBackups"
>;

/** Steps that the hosting does nearly by itself. */
export function createHostedActivities(sites: ControlPlaneSites): Steps {
  return {
    async claimControlPlane(subject) {
      using work = beginWork("ExposeSourcePeers");
      await openControlPlane(sites, subject).hosting.claim(work.signal);
    },

    async releaseControlPlane(subject) {
      using work = beginWork("ExposeSourcePeers");
      await openControlPlane(sites, subject).hosting.release(work.signal);
    },

    copySecrets: step(sites, "CopySecrets", async ({ hosting, signal }) => await hosting.carryOver(signal)),

    clearDestinationSeed: undoStep(sites, "CopySecrets", async ({ hosting, signal }) => {
      try {
        await hosting.clearDestination(signal);
      } catch (error) {
        // A namespace that somebody else has made meanwhile has nothing of the move.
        if (!(error instanceof ClaimedError)) throw error;
      }
    }),

    bridgeVpn: step(sites, "BridgeVPN", async (session, { side }) => {
      const { hosting, api, config, signal } = session;
      if (config.vpn === undefined) return;
      const endpoint = await hosting.startVpnServer(side, signal);
      await makeBridge(api, config.vpn, side, endpoint, signal);
      await probeVpn(await apiOf(session, side), config.vpn, signal);
    }),

    dismantleVpnBridge: undoStep(sites, "BridgeVPN", async ({ hosting, api, config, signal }, { side }) => {
      if (config.vpn === undefined) return;
      await removeBridge(api, config.vpn, side, signal);
      const isOurs = side === "destination" && (await hosting.isReachable(side, signal));
      if (isOurs) await hosting.stopVpnServer(side, signal);
    }),

    moveVpnClients: step(sites, "DrainSourceKubeAPIServer", async (session, { move, towards }) => {
      const { api, config, signal } = session;
      if (config.vpn === undefined) return;
      await moveClients(api, config.vpn, { move, towards }, signal);
      await probeVpn(await apiOf(session, towards), config.vpn, signal);
    }),

    handOverControllers: step(
      sites,
      "HandOverControllers",
      async (session) => await handOver(session, "source", "destination"),
    ),

    returnControllers: undoStep(sites, "HandOverControllers", async (session) => {
      await handOver(session, "destination", "source");
    }),

    finishBackups: step(sites, "FinishBackups", async ({ hosting, signal }) => {
      await hosting.finishBackups(signal);
      await hosting.adopt(signal);
    }),
  };
}

async function handOver(session: Session, from: Side, to: Side) {
  const { hosting, signal } = session;
  const stopped = await hosting.fenceControllers(from, signal);
  await hosting.startControllers(to, signal);
  // Since the step was ordered: an attempt before this one may have stopped them.
  return { stopped, withoutControllersMs: Date.now() - activityInfo().scheduledTimestampMs };
}
