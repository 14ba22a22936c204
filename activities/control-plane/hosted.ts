import { activityInfo } from "@temporalio/activity";
import { ClaimedError } from "../../hosting/types.ts";
import type { Side } from "../../hosting/types.ts";
import { SupersededError } from "../../etcd/errors.ts";
import { WaitError } from "../../kubernetes/wait.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { awaitReady } from "./api-servers.ts";
import { apiOf, openControlPlane, step, undoStep } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities } from "./types.ts";
import { awaitBridgeGone, makeBridge, moveClients, probeVpn, removeBridge } from "./vpn.ts";
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
  | "stopSourceControllers"
  | "handOverControllers"
  | "returnControllers"
  | "finishBackups"
>;

/** Others have waited in vain for so long: a rollout, pods that are to go. */
const LEFT_AFTER_MS = 4 * 60_000;
const ANSWERS_WITHIN_MS = 10_000;

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

    bridgeVpn: step(sites, "BridgeVPN", async (session, { side, unlessLost = false }) => {
      const { hosting, config, signal } = session;
      const { vpn } = config;
      if (vpn === undefined) return;
      await leftWhereLost(session, unlessLost, async () => {
        // A kubelet starts its pod, and asks where the name leads: if nobody answers there, the name has to go back first.
        if (unlessLost && !(await serves(session, "destination"))) return;
        const endpoint = await hosting.startVpnServer(side, signal);
        // Not by name, which leads to the other side.
        const api = await apiOf(session, side);
        await makeBridge(api, vpn, side, endpoint, signal);
        await probeVpn(api, vpn, signal);
      });
    }),

    dismantleVpnBridge: undoStep(sites, "BridgeVPN", async (session, { side, unlessLost = false }) => {
      const { hosting, api, config, signal } = session;
      const { vpn } = config;
      if (vpn === undefined) return;
      await removeBridge(api, vpn, side);
      // Its pods go by themselves then; nodes may have to find the API server again first.
      await leftWhereLost(session, unlessLost, async () => await awaitBridgeGone(api, vpn, side, signal));
      const isOurs = side === "destination" && (await hosting.isReachable(side, signal));
      if (isOurs) await hosting.stopVpnServer(side, signal);
    }),

    moveVpnClients: step(
      sites,
      "DrainSourceKubeAPIServer",
      async (session, { move, towards, unlessLost = false }) => {
        const { api, config, signal } = session;
        const { vpn } = config;
        if (vpn === undefined) return;
        // Those of a lost side dial the name by themselves, when they notice.
        await leftWhereLost(session, unlessLost, async () => {
          await moveClients(api, vpn, { move, towards }, signal);
          await probeVpn(await apiOf(session, towards), vpn, signal);
        });
      },
    ),

    stopSourceControllers: step(sites, "HandOverControllers", async ({ hosting, signal }) => {
      // Since the step was ordered: an attempt before this one may have stopped them.
      const orderedAt = activityInfo().scheduledTimestampMs;
      return { stopped: await hosting.fenceControllers("source", signal), orderedAt };
    }),

    handOverControllers: step(sites, "HandOverControllers", async (session, { after }) => {
      const orderedAt = after?.orderedAt ?? activityInfo().scheduledTimestampMs;
      const { hosting, signal } = session;
      // Where an attempt has failed somebody may have started them since.
      const isStopped = after !== undefined && activityInfo().attempt === 1;
      const stopped = isStopped ? after.stopped : await hosting.fenceControllers("source", signal);
      await hosting.startControllers("destination", signal);
      return { stopped, withoutControllersMs: Date.now() - orderedAt };
    }),

    returnControllers: undoStep(
      sites,
      "HandOverControllers",
      async (session, { unlessLost = false, onlyStopped }) => {
        const { hosting, signal } = session;
        const resume = async () => await hosting.resumeControllers(signal);
        if (onlyStopped) return await leftWhereItFails(session, unlessLost, resume);
        await leftWhereLost(session, unlessLost, async () => {
          await hosting.fenceControllers("destination", signal);
          await hosting.startControllers("source", signal);
        });
      },
    ),

    finishBackups: step(sites, "FinishBackups", async ({ hosting, signal }) => {
      await hosting.finishBackups(signal);
      await hosting.adopt(signal);
    }),
  };
}

/** Whether the API servers of a side answer, now or in some seconds. */
async function serves(session: Session, side: Side): Promise<boolean> {
  try {
    await awaitReady(await apiOf(session, side), session.signal, ANSWERS_WITHIN_MS);
    return true;
  } catch (error) {
    if (error instanceof WaitError) return false;
    throw error;
  }
}

/**
 * Runs a part of an undo. One that may be left to later is, where the destination does not answer, or when it fails for
 * minutes: users and the quorum must not wait for a seed that is lost, or broken.
 */
async function leftWhereLost(session: Session, isLeft: boolean, run: () => Promise<void>): Promise<void> {
  if (isLeft && !(await session.hosting.isReachable("destination", session.signal))) return;
  await leftWhereItFails(session, isLeft, run);
}

async function leftWhereItFails(
  { signal }: Session,
  isLeft: boolean,
  run: () => Promise<void>,
): Promise<void> {
  try {
    await run();
  } catch (error) {
    signal.throwIfAborted();
    if (!isLeft) throw error;
    const isPassing = Date.now() - activityInfo().scheduledTimestampMs < LEFT_AFTER_MS;
    if (isPassing || error instanceof ClaimedError || error instanceof SupersededError) throw error;
  }
}
