import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { setRecord } from "./dns.ts";
import { proveSameData } from "./api-servers.ts";
import { apiOf, step } from "./session.ts";
import type { ControlPlaneActivities } from "./types.ts";
import { probeVpn, removeBridge } from "./vpn.ts";

/** What comes last. Nothing here can be undone, and all of it can be done again. */
export function createFinishActivities(
  sites: ControlPlaneSites,
): Pick<ControlPlaneActivities, "cleanUpSource"> {
  return {
    cleanUpSource: step(sites, "CleanUpSource", async (session, { move, from, record }) => {
      const { hosting, api, config, signal } = session;
      // Nothing is cleaned at the source before the destination is proven to serve, by its name.
      await proveSameData(api, await apiOf(session, "destination"));
      if (config.vpn) {
        await removeBridge(api, config.vpn, "destination", signal);
        await probeVpn(await apiOf(session, "destination"), config.vpn, signal);
      }
      await setRecord(sites, session, record.values, record);
      await hosting.clearSource(move, signal);
      await hosting.release(move, signal);
      return [
        `TTL of ${config.apiServer.dnsName}: ${record.ttlSeconds} s again, the source's namespace at ${from} is deleted`,
      ];
    }),
  };
}
