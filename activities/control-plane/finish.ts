import { EPOCH } from "../../hosting/claim.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { setRecord } from "./dns.ts";
import { proveSameData, removeProofs } from "./api-servers.ts";
import { removeAt } from "./commit.ts";
import { allEtcds } from "./etcd.ts";
import { apiOf, step } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities, StretchedSubject } from "./types.ts";
import { awaitBridgeGone, probeVpn, removeBridge } from "./vpn.ts";

/**
 * A source that was cut off when its members were removed may have added them again when it came back, before they were
 * stopped.
 */
async function removeReturned(
  session: Session,
  { layouts, maxLagRevisions }: Partial<StretchedSubject>,
): Promise<void> {
  // Moves that began before this step looked at members do not say where they are.
  if (!session.hosting.promotesByItself || layouts === undefined || maxLagRevisions === undefined) return;
  await allEtcds(session, { layouts, maxLagRevisions }, async (etcd) => {
    for (const address of etcd.layout.source.toReversed()) await removeAt(etcd, address);
  });
}

/** What comes last. Nothing here can be undone, and all of it can be done again. */
export function createFinishActivities(
  sites: ControlPlaneSites,
): Pick<ControlPlaneActivities, "cleanUpSource"> {
  return {
    cleanUpSource: step(sites, "CleanUpSource", async (session, input) => {
      const { to, record } = input;
      const { hosting, api, config, signal } = session;
      // Nothing is cleaned at the source before the destination is proven to serve, by its name.
      await proveSameData(api, await apiOf(session, "destination"));
      await removeProofs(api, signal);
      if (config.vpn) {
        await removeBridge(api, config.vpn, "destination");
        await awaitBridgeGone(api, config.vpn, "destination", signal);
        await probeVpn(await apiOf(session, "destination"), config.vpn, signal);
      }
      await setRecord(session, record.values, record);
      await hosting.dns.handOver(signal);
      await hosting.clearSource(signal);
      await removeReturned(session, input);
      // Moves that began before the workflow did this itself.
      if (input.keepsClaim !== true) await hosting.release(signal);
      return [`${EPOCH} on what bore the claim, and on workloads at ${to}: the rank of the last attempt`];
    }),
  };
}
