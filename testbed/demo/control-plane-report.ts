import type { ControlPlaneReport } from "../../activities/control-plane/types.ts";
import type { ControlPlaneClientsResult } from "../control-plane/workload/conclusion.ts";
import type { TunnelResult } from "../control-plane/workload/tunnel-pings.ts";
import { commonReport, inWords } from "./common-report.ts";
import type { CommonFacts, CommonReport } from "./common-report.ts";

/** `.rehome/report.json` of this kind. */
export interface ControlPlaneDemoReport extends CommonReport<ControlPlaneReport> {
  readonly clients: ControlPlaneClientsResult;
  /** What got lost in the VPN, in order of the ends of the pings. */
  readonly tunnels: readonly TunnelResult[];
}

interface Facts extends CommonFacts<ControlPlaneReport> {
  readonly clients: ControlPlaneClientsResult;
  readonly tunnels: readonly TunnelResult[];
  /** How often a controller found another instance of itself alive. */
  readonly doubled: number;
}

export function makeControlPlaneReport(facts: Facts): ControlPlaneDemoReport {
  const { clients, tunnels } = facts;
  return { ...commonReport(facts, brokenPromises(facts)), clients, tunnels };
}

/** Which of rehome's promises the move has broken, as far as it, its clients and its controllers can tell. */
function brokenPromises({ move, clients, tunnels, doubled }: Facts): string[] {
  const { failedRequests, excused } = clients;
  const counts: readonly (readonly [number, string])[] = [
    [failedRequests - excused.cut - excused.dropped, "requests failed"],
    [clients.relists, "watches had to list again"],
    [clients.vpn.reduce((sum, { failed }) => sum + failed, 0), "requests to a pod through the VPN failed"],
    [
      tunnels.filter(({ longestLoss }) => longestLoss > 1).length,
      "seeds lost several pings one after the other",
    ],
    [clients.lostWrites, "acknowledged writes were lost"],
    [clients.staleReads, "reads showed less than had been acknowledged before"],
    [clients.missedEvents, "events were missed by watches"],
    [clients.resourceVersionRegressions, "times a resourceVersion went backwards"],
    [clients.leaseLost ? 1 : 0, "leader election lost its lease"],
    [doubled, "times a controller found another instance of itself alive"],
  ];
  return [
    ...(move.verified ? [] : ["the members were not proven equal before the first was removed"]),
    ...inWords(counts),
  ];
}
