import type { MoveReport } from "../../activities/logical-cluster/types.ts";
import type { ClientsResult } from "../workload/result.ts";

/** `.rehome/report.json`: what programs read. The first fields are the same for all kinds. */
export interface DemoReport {
  readonly kind: "logicalClusterMigration";
  readonly workflowId: string;
  readonly uiUrl: string;
  readonly verified: boolean;
  readonly keys: number;
  readonly bytes: number;
  readonly requests: number;
  readonly failedRequests: number;
  readonly lostWrites: number;
  readonly longestGapMs: number;
  readonly missedEvents: number;
  readonly historyEvents: number;
  readonly phases: MoveReport["phases"];
  readonly outage: MoveReport["outage"];
  /** What was broken, in words; empty when all is well. */
  readonly broken: readonly string[];
  readonly clients: ClientsResult;
  readonly move: MoveReport;
}

export interface Facts {
  readonly workflowId: string;
  readonly uiUrl: string;
  readonly historyEvents: number;
  readonly move: MoveReport;
  readonly clients: ClientsResult;
  /** What does not work in the workspace after the move. */
  readonly defects: readonly string[];
}

export function makeReport({ workflowId, uiUrl, historyEvents, move, clients, defects }: Facts): DemoReport {
  const { requests, failedRequests, lostWrites, longestGapMs, missedEvents } = clients;
  return {
    kind: move.kind,
    workflowId,
    uiUrl,
    verified: move.verified,
    keys: move.keys,
    bytes: move.bytes,
    requests,
    failedRequests,
    lostWrites,
    longestGapMs,
    missedEvents,
    historyEvents,
    phases: move.phases,
    outage: move.outage,
    broken: [...brokenPromises(move, clients), ...defects],
    clients,
    move,
  };
}

/** Which of rehome's promises the move has broken, as far as it and its clients can tell. */
function brokenPromises({ verified, cleaned, outage }: MoveReport, clients: ClientsResult): string[] {
  const counts: readonly (readonly [number, string])[] = [
    [clients.lostWrites, "acknowledged writes were lost"],
    [clients.staleReads, "reads showed less than had been acknowledged before"],
    [clients.missedEvents, "events were missed by watches"],
    [clients.resourceVersionRegressions, "times a resourceVersion went backwards"],
    [clients.failedRequests, "requests failed for good, and not because they were under way at the cut"],
    [cleaned?.conflicts.length ?? 0, "late writes were in conflict"],
  ];
  return [
    ...(verified ? [] : ["the destination was not proven equal before the switch"]),
    ...(outage === undefined ? ["the move told nothing of its outage"] : []),
    ...counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`),
  ];
}
