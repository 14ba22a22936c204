import type { MoveReport } from "../../activities/logical-cluster/types.ts";
import { bar, byteSize, count, duration } from "../../cli/view/format.ts";
import { span } from "../../cli/view/line.ts";
import type { Line, Tone } from "../../cli/view/line.ts";
import type { ClientsResult, WatchResult } from "../workload/result.ts";
import type { DemoReport } from "./report.ts";

const barWidth = 30;
const digestLength = 16;

/** The report as a person reads it. Pure. */
export function reportLines(report: DemoReport): Line[] {
  const { move, clients, broken } = report;
  return [
    [],
    ...headline(report),
    ...phases(move),
    ...outage(move),
    ...proof(move),
    ...account(clients),
    ...gaps(clients),
    ...watches(clients),
    ...notes(report),
    ...verdict(broken),
  ];
}

/** @param excused failed requests that no promise was made of */
export function verdict(broken: readonly string[], excused = 0): Line[] {
  const but = excused === 0 ? "" : ` ${count(excused)} of the requests failed, with the excuse above.`;
  return [
    [],
    broken.length === 0
      ? [span(`✔ Every promise was kept.${but}`, "good")]
      : [span(`✘ ${broken.length} promises were broken:`, "bad")],
    ...broken.map((what): Line => [span(`  ${what}`, "bad")]),
  ];
}

function headline({ move }: DemoReport): Line[] {
  const { path, cluster, from, to, keys, bytes } = move;
  const total = move.phases.reduce((sum, { ms }) => sum + ms, 0);
  return [
    [
      span(`${path} (${cluster}) moved from ${from} to ${to}`, "strong"),
      span(` while in use: ${count(keys)} keys, ${byteSize(bytes)}, ${duration(total)} in all`),
    ],
  ];
}

export function title(text: string): Line[] {
  return [[], [span(text, "strong")]];
}

export function row(name: string, value: string, detail = "", tone?: Tone): Line {
  return [span(`  ${name.padEnd(34)}`), span(value.padStart(10), tone), span(`  ${detail}`, "faint")];
}

export function phases({ phases: done }: Pick<MoveReport, "phases">): Line[] {
  const longest = Math.max(1, ...done.map(({ ms }) => ms));
  return [
    ...title("Phases"),
    ...done.map(({ name, ms }) => row(name, duration(ms), bar(ms / longest, barWidth).replaceAll("░", " "))),
  ];
}

function outage({ outage: parts, switched, fence }: MoveReport): Line[] {
  if (parts === undefined) return [];
  return [
    ...title("Outage, as the move itself timed it"),
    row("in all", duration(parts.totalMs), "from asking for the fence until every front-proxy had switched"),
    row("  fence asked for and seen", duration(parts.fencingMs), `${fence} fence`),
    row("  open requests ended", duration(parts.cutMs)),
    row("  last changes carried over", duration(parts.drainMs), `${count(switched?.changes ?? 0)} changes`),
    row("  checked", duration(parts.checkMs), `${count(switched?.keys ?? 0)} keys counted on both sides`),
    row("  switched", duration(parts.switchMs)),
    row("  routed", duration(parts.routingMs)),
    ...(parts.earlier
      ? [
          row(
            "earlier",
            duration(parts.earlier.ms),
            `${count(parts.earlier.fences)} fences that came off again`,
          ),
        ]
      : []),
  ];
}

function proof({ verification, cleaned, copied }: MoveReport): Line[] {
  if (verification === undefined) return [];
  const { families, allowedTotal, unequal, position } = verification;
  return [
    ...title("Proof: both sides equal before the switch"),
    ...families.map(({ family, keys, bytes, digest }): Line => {
      const size = `${count(keys).padStart(8)} ${byteSize(bytes).padStart(9)}`;
      return [
        span(`  ${shortened(family).padEnd(56)} ${size}  `),
        span(digest.slice(0, digestLength), "faint"),
      ];
    }),
    row("unequal", count(unequal), `at the origin's revision ${position}`, unequal === 0 ? "good" : "bad"),
    row("allowed to differ", count(allowedTotal), "written by the destination's own controllers"),
    row(
      "copied",
      count(copied?.keys ?? 0),
      `${count(copied?.tombstones ?? 0)} tombstones for earlier deletes`,
    ),
    row(
      "deleted at the origin",
      count(cleaned?.deleted ?? 0),
      `${count(cleaned?.lateWrites ?? 0)} late writes carried over`,
    ),
  ];
}

/** An identity of 64 characters says no more than its first ones. */
function shortened(family: string): string {
  return family.replace(/[0-9a-f]{64}/, (identity) => `${identity.slice(0, 8)}…`);
}

export function zero(value: number): Tone {
  return value === 0 ? "good" : "bad";
}

function account(clients: ClientsResult): Line[] {
  const { requests, failedRequests, inFlightAtCut, cutInsideFence } = clients;
  return [
    ...title("The clients' own account"),
    row(
      "requests",
      count(requests),
      "reads and writes, by path and by id; as client-go counts: retries included",
    ),
    row("failed", count(failedRequests), "after client-go's retries", zero(failedRequests)),
    row(
      "under way when the fence cut",
      count(inFlightAtCut),
      "answered 504 or 502, which client-go does not retry",
    ),
    row(
      "cut inside the fence",
      count(cutInsideFence),
      "kcp answered 504 or 403 instead of 503 with Retry-After",
    ),
    row(
      "conflicts",
      count(clients.conflicts),
      "409 for a resourceVersion of the origin; read again and written, as RetryOnConflict does",
    ),
    ...promises(clients),
    ...longestGaps(clients),
    ...Object.entries(clients.refusedAttempts).map(([status, times]) =>
      row(`  answered ${status}`, count(times)),
    ),
    ...clients.failures.map((words): Line => [span(`  ${words}`, "warn")]),
    ...clients.lostExamples.map(({ key, expected, found }): Line => [
      span(`  lost: ${key} should be ${expected}, is ${found}`, "bad"),
    ]),
  ];
}

function promises(clients: ClientsResult): Line[] {
  return [
    row("acknowledged writes", count(clients.acknowledgedWrites)),
    row("lost writes", count(clients.lostWrites), "", zero(clients.lostWrites)),
    row("stale reads", count(clients.staleReads), "", zero(clients.staleReads)),
    row(
      "resourceVersion went backwards",
      count(clients.resourceVersionRegressions),
      "",
      zero(clients.resourceVersionRegressions),
    ),
    row("events missed by watches", count(clients.missedEvents), "", zero(clients.missedEvents)),
  ];
}

function longestGaps(clients: ClientsResult): Line[] {
  return [
    row("longest gap", duration(clients.longestGapMs), gapWords(clients.gapAtCutMs, clients)),
    row(
      "longest gap, custom resources",
      duration(clients.longestCustomResourceGapMs),
      `at the cut: ${duration(clients.customResourceGapAtCutMs)}`,
    ),
    row("longest stall of the clients", duration(clients.longestStallMs), "their own, on this machine"),
  ];
}

function gapWords(atCutMs: number, { longestGapBeforeMs }: ClientsResult): string {
  return `ConfigMaps; at the cut: ${duration(atCutMs)}; before the fence: ${duration(longestGapBeforeMs)}`;
}

function gaps({ gaps: all }: ClientsResult): Line[] {
  const byResource = Map.groupBy(all, ({ resource }) => resource);
  return [
    ...title("Longest gap by verb, beyond the usual interval"),
    ...[...byResource].map(([resource, group]): Line => {
      const cells = group
        .toSorted((one, other) => one.verb.localeCompare(other.verb))
        .map(({ verb, ms }) => `${verb} ${duration(ms)}`.padEnd(16));
      return [span(`  ${resource.padEnd(12)}`), span(cells.join(" "))];
    }),
  ];
}

function watches({ watches: all }: ClientsResult): Line[] {
  return [
    ...title("Watches"),
    ...all.flatMap((one): Line[] => [
      [span(`  ${one.watch.padEnd(34)}`), span(watchWords(one))],
      ...one.missedExamples.map((words): Line => [span(`    missed: ${words}`, "bad")]),
    ]),
  ];
}

function watchWords({ events, breaks, relists, missed, skipped }: WatchResult): string {
  const listed = relists === 0 ? "never listed again" : `listed again ${relists} times`;
  const holes = skipped === 0 ? "" : `, ${skipped} seen only through a later write`;
  return `${count(events)} events, resumed ${breaks} times, ${listed}, ${missed} missed${holes}`;
}

function notes({ move, historyEvents, uiUrl, workflowId }: DemoReport): Line[] {
  const list = (name: string, entries: readonly string[]): Line[] =>
    entries.length === 0 ? [] : [...title(name), ...entries.map((entry): Line => [span(`  ${entry}`)])];
  return [
    ...list("Left in place on purpose", move.leftInPlace),
    ...list("Warnings", move.warnings),
    ...title("History"),
    row("events", count(historyEvents), workflowId),
    [span(`  ${uiUrl}`, "live")],
  ];
}
