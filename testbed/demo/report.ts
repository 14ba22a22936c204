import type { MoveReport } from "../../activities/logical-cluster/types.ts";
import type { ClientsResult } from "../workload/result.ts";
import { commonReport, inWords } from "./common-report.ts";
import type { CommonFacts, CommonReport } from "./common-report.ts";

/** `.rehome/report.json` of this kind. */
export interface DemoReport extends CommonReport<MoveReport> {
  readonly keys: number;
  readonly bytes: number;
  readonly outage: MoveReport["outage"];
  readonly clients: ClientsResult;
}

export interface Facts extends CommonFacts<MoveReport> {
  readonly clients: ClientsResult;
  /** What does not work in the workspace after the move. */
  readonly defects: readonly string[];
}

export function makeReport(facts: Facts): DemoReport {
  const { move, clients, defects } = facts;
  const { keys, bytes, outage } = move;
  const broken = [...brokenPromises(move, clients), ...defects];
  return { ...commonReport(facts, broken), keys, bytes, outage, clients };
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
    ...inWords(counts),
  ];
}
