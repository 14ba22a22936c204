import type { ControlPlaneReport } from "../../activities/control-plane/types.ts";
import type { ControlPlaneClientsResult } from "../control-plane/workload/conclusion.ts";
import type { TunnelResult } from "../control-plane/workload/tunnel-pings.ts";

/** `.rehome/report.json` of this kind: what programs read. The first fields are the same for all kinds. */
export interface ControlPlaneDemoReport {
  readonly kind: "controlPlaneMigration";
  readonly workflowId: string;
  readonly uiUrl: string;
  readonly verified: boolean;
  readonly requests: number;
  readonly failedRequests: number;
  readonly lostWrites: number;
  readonly longestGapMs: number;
  readonly missedEvents: number;
  readonly historyEvents: number;
  readonly phases: ControlPlaneReport["phases"];
  /** What was broken, in words; empty when all is well. */
  readonly broken: readonly string[];
  readonly clients: ControlPlaneClientsResult;
  /** What got lost in the VPN, in order of the ends of the pings. */
  readonly tunnels: readonly TunnelResult[];
  readonly move: ControlPlaneReport;
}

interface Facts {
  readonly workflowId: string;
  readonly uiUrl: string;
  readonly historyEvents: number;
  readonly move: ControlPlaneReport;
  readonly clients: ControlPlaneClientsResult;
  readonly tunnels: readonly TunnelResult[];
  /** How often a controller found another instance of itself alive. */
  readonly doubled: number;
}

export function makeControlPlaneReport(facts: Facts): ControlPlaneDemoReport {
  const { workflowId, uiUrl, historyEvents, move, clients, tunnels } = facts;
  const { requests, failedRequests, lostWrites, longestGapMs, missedEvents } = clients;
  return {
    kind: move.kind,
    workflowId,
    uiUrl,
    verified: move.verified,
    requests,
    failedRequests,
    lostWrites,
    longestGapMs,
    missedEvents,
    historyEvents,
    phases: move.phases,
    broken: brokenPromises(facts),
    clients,
    tunnels,
    move,
  };
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
    ...counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`),
  ];
}
