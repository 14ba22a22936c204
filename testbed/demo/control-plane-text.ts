import type { ControlPlaneReport } from "../../activities/control-plane/types.ts";
import { count, duration } from "../../cli/view/format.ts";
import { span } from "../../cli/view/line.ts";
import type { Line, Tone } from "../../cli/view/line.ts";
import type { ControlPlaneClientsResult, ProtocolResult } from "../control-plane/workload/conclusion.ts";
import type { TunnelResult } from "../control-plane/workload/tunnel-pings.ts";
import type { ControlPlaneDemoReport } from "./control-plane-report.ts";
import { phases, row, title, verdict, zero } from "./report-text.ts";

/** Failed requests that are told one by one. */
const SHOWN = 10;

/** The report as a person reads it. Pure. */
export function controlPlaneLines(report: ControlPlaneDemoReport): Line[] {
  const { move, clients, broken, historyEvents, workflowId } = report;
  const total = move.phases.reduce((sum, { ms }) => sum + ms, 0);
  return [
    [],
    [
      span(`Control plane ${move.controlPlane} moved from ${move.from} to ${move.to}`, "strong"),
      span(` while in use, ${duration(total)} in all`),
    ],
    ...phases(move),
    ...proof(move),
    ...account(clients),
    ...pinged(report.tunnels),
    ...proxied(clients),
    ...title("History"),
    row("events", count(historyEvents), workflowId),
    ...verdict(broken, clients.excused.cut + clients.excused.dropped),
  ];
}

function proof({ committed, roundTripMs, handedOver, drained, voters }: ControlPlaneReport): Line[] {
  const proofs = committed?.proofs ?? [];
  return [
    ...title("Proof"),
    ...proofs.map(({ etcd, members, revision, hash }) =>
      row(etcd, `${members} equal`, `HashKV ${hash} at revision ${revision}`, "good"),
    ),
    ...Object.entries(committed?.evenMs ?? {}).map(([etcd, ms]) =>
      row(`even number of voters, ${etcd}`, duration(ms), "neither seed could have gone on alone"),
    ),
    row(
      "writes held",
      committed?.writesHeldMs === undefined ? "no" : duration(committed.writesHeldMs),
      "while etcd's leaders were handed over",
    ),
    row("round trip between the seeds", `${roundTripMs ?? 0} ms`, "as etcd measures it"),
    row(
      "without controllers",
      duration(handedOver?.withoutControllersMs ?? 0),
      "at most, from the order to stop those of the source",
    ),
    row(
      "long requests at the drain",
      count(drained?.longRunning ?? 0),
      "watches and others of all clients, nodes and controllers, resumed elsewhere",
    ),
    row(
      "voters at the end",
      count(voters?.length ?? 0),
      voters?.map(({ member }) => member).join(", ") ?? "",
    ),
  ];
}

function account(clients: ControlPlaneClientsResult): Line[] {
  const { excused } = clients;
  return [
    ...title("The clients' own account"),
    row("requests", count(clients.requests), "by the DNS name, over HTTP/1.1 and HTTP/2"),
    row("failed, HTTP/2", ...failedOf(clients.protocols.http2)),
    row("failed, HTTP/1.1", ...failedOf(clients.protocols.http1)),
    row("of them cut", count(excused.cut), "writes over HTTP/1.1, which has no word for the end of a server"),
    row("of them dropped", count(excused.dropped), "writes that came while etcd's leader handed over"),
    row("acknowledged writes", count(clients.acknowledgedWrites)),
    row("lost writes", count(clients.lostWrites), "", zero(clients.lostWrites)),
    row("stale reads", count(clients.staleReads), "", zero(clients.staleReads)),
    row(
      "watches",
      count(clients.watches),
      `${count(clients.events)} events, resumed ${clients.watchBreaks} times, listed again ${clients.relists} times`,
    ),
    row("events missed", count(clients.missedEvents), "", zero(clients.missedEvents)),
    row(
      "longest gap",
      duration(clients.longestGapMs),
      `own stall of the clients: ${duration(clients.longestStallMs)}`,
    ),
    row(
      "lease",
      clients.leaseLost ? "LOST" : "held",
      `longest time between renewals ${duration(clients.leaseLongestMs)}`,
      clients.leaseLost ? "bad" : "good",
    ),
    ...clients.failures.slice(0, SHOWN).map((words): Line => [span(`  ${words}`, "bad")]),
    ...(clients.failedRequests > SHOWN
      ? [[span(`  and ${clients.failedRequests - SHOWN} more`, "bad")]]
      : []),
  ];
}

function failedOf({ failedRequests, requests }: ProtocolResult): [value: string, detail: string, tone: Tone] {
  return [count(failedRequests), `of ${count(requests)}, after retries`, zero(failedRequests)];
}

function pinged(tunnels: readonly TunnelResult[]): Line[] {
  return [
    ...title("Through the VPN, a ping each 100 ms"),
    ...tunnels.map(({ side, pings, lost, longestLoss, slowestMs }) => {
      const detail = `${count(lost)} lost, at most ${longestLoss} one after the other; answered within ${duration(slowestMs)}`;
      return row(side, count(pings), detail, longestLoss > 1 ? "bad" : "good");
    }),
  ];
}

function proxied({ vpn }: ControlPlaneClientsResult): Line[] {
  return [
    ...title("From an API server to a pod through the VPN, a request each 100 ms"),
    ...vpn.map(({ side, pings, failed, longestGapMs, slowestMs, latestMs }) => {
      const gap = `${count(failed)} failed, longest gap ${duration(longestGapMs)}`;
      const causes = `sent up to ${duration(latestMs)} late, answered within ${duration(slowestMs)}`;
      return row(side, count(pings), `${gap}: ${causes}`, zero(failed));
    }),
  ];
}
