import type { Explained, Moved } from "./explain.ts";
import type { Chapter, ClientsReport, Verdict } from "./program.ts";

/** What the clients have seen, for a person to read. */
export function tables(
  moves: readonly Moved[],
  report: ClientsReport,
  failures: readonly Explained[],
): string {
  return [
    title("Moves", moveRows(moves, report, failures)),
    title("Clients", clientRows(report.chapters)),
    title("Informers", informerRows([...report.informers, ...report.provider.informers])),
    title("Relists, by how the watch before ended", relistRows(report)),
    title("Leases", leaseRows(report)),
    title("Longest time between two answers, in ms", gapRows(report.chapters)),
    title("Failed requests", failureRows(failures)),
  ].join("");
}

type Row = readonly (string | number)[];

function title(text: string, rows: readonly Row[]): string {
  return `\n${text}\n${format(rows)}`;
}

function format(rows: readonly Row[]): string {
  const texts = rows.map((row) => row.map(String));
  const widths = texts.reduce<number[]>(
    (known, row) => row.map((cell, i) => Math.max(known[i] ?? 0, cell.length)),
    [],
  );
  const line = (row: string[]) => `  ${row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ")}`.trimEnd();
  return `${texts.map(line).join("\n")}\n`;
}

function moveRows(moves: readonly Moved[], report: ClientsReport, failures: readonly Explained[]): Row[] {
  const all = [...report.informers, ...report.provider.informers];
  const rows = moves.map(({ report: move, cameBack }, index): Row => {
    const { clients, beganAt } = report.chapters[index + 1]!;
    const end = report.chapters[index + 2]?.beganAt ?? Infinity;
    const counts = Object.values(clients);
    const relists = all.flatMap((verdict) => verdict.relists).filter(({ at }) => at >= beganAt && at < end);
    const failed = failures.filter(({ move: number }) => number === index + 1);
    const ofClients = failed.filter(({ client }) => !client.startsWith("provider"));
    return [
      index + 1,
      `${move.from} -> ${move.to}`,
      cameBack.length,
      move.switched!.healed ? "yes" : "no",
      move.outage!.fencingMs,
      move.outage!.totalMs,
      sum(counts.map(({ requests }) => requests)),
      sum(counts.map(({ attempts }) => statuses(attempts)["503"] ?? 0)),
      ofClients.filter(({ status }) => status === 504).length,
      ofClients.filter(({ status }) => status !== 504).length,
      failed.length - ofClients.length,
      sum(counts.map(({ conflicts }) => sum(Object.values(conflicts)))),
      relists.length,
      sum(all.map(({ olderAgain }) => olderAgain.filter(({ at }) => at >= beganAt && at < end).length)),
    ];
  });
  const head = ["move", "", "came back", "healed", "fencing ms", "outage ms", "requests", "503, repeated"];
  return [[...head, "504", "502, 403", "of provider", "409", "relists", "older again"], ...rows];
}

function clientRows(chapters: readonly Chapter[]): Row[] {
  const names = [...new Set(chapters.flatMap(({ clients }) => Object.keys(clients)))].toSorted();
  const rows = names.map((name): Row => {
    const counts = chapters.flatMap(({ clients }) => clients[name] ?? []);
    const answers = merge(counts.map(({ attempts }) => statuses(attempts)));
    const failed = counts.flatMap(({ failures }) => failures);
    return [
      name,
      sum(counts.map(({ requests }) => requests)),
      failed.length,
      sum(counts.map(({ conflicts }) => sum(Object.values(conflicts)))),
      Object.entries(answers)
        .filter(([status]) => status !== "200" && status !== "201")
        .map(([status, n]) => `${n} x ${status}`)
        .join(", "),
    ];
  });
  return [["client", "requests", "failed", "409", "answers on the wire other than 200 and 201"], ...rows];
}

function informerRows(verdicts: readonly Verdict[]): Row[] {
  const rows = verdicts.map((v): Row => {
    const { informer, acknowledged, seenExactly, seenLater, betweenLists } = v;
    const wrong = [v.missed, v.wentBack, v.falseEnds, v.storeDiffers].map(({ length }) => length);
    const again = [v.olderAgain.length, v.revived];
    return [
      informer,
      acknowledged,
      seenExactly,
      seenLater,
      betweenLists,
      ...wrong,
      ...again,
      v.lists,
      v.watches,
    ];
  });
  const head = ["informer", "writes", "seen", "seen later", "between lists", "missed", "went back"];
  return [[...head, "false ends", "differs", "older again", "revived", "lists", "watches"], ...rows];
}

function relistRows({ informers, provider }: ClientsReport): Row[] {
  const rows = [...informers, ...provider.informers].flatMap(({ informer, relists }) =>
    [...countBy(relists, ({ how, cause }) => `${how}, after: ${cause.replaceAll(/\d{4,}/g, "n")}`)].map(
      ([what, n]): Row => [informer, n, what],
    ),
  );
  return [["informer", "times", "what"], ...rows];
}

function leaseRows({ leases }: ClientsReport): Row[] {
  const rows = leases.map(({ name, terms, lost, overlaps }): Row => [
    name,
    terms,
    lost.length,
    overlaps.length,
  ]);
  return [["lease", "terms", "lost", "two leaders"], ...rows];
}

function gapRows(chapters: readonly Chapter[]): Row[] {
  const longest = new Map<string, number[]>();
  for (const [index, { clients }] of chapters.entries()) {
    for (const [client, { gaps }] of Object.entries(clients)) {
      for (const [verb, { ms }] of Object.entries(gaps)) {
        const key = `${client}: ${verb}`;
        const known = longest.get(key) ?? chapters.map(() => 0);
        known[index] = ms;
        longest.set(key, known);
      }
    }
  }
  const rows = [...longest]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([key, [before, ...inMoves]]): Row => {
      const sorted = inMoves.toSorted((a, b) => a - b);
      return [key, before ?? 0, sorted[Math.floor(sorted.length / 2)] ?? 0, sorted.at(-1) ?? 0];
    });
  return [["client: verb", "before", "median of moves", "longest"], ...rows];
}

function failureRows(failures: readonly Explained[]): Row[] {
  const rows = failures.map((f): Row => {
    const what = `${f.client}: ${f.verb} ${f.resource}`;
    const offset = `${f.offsetMs ?? 0} ms after ${f.nearest ?? "?"}`;
    return [
      what,
      f.status,
      `${f.endedAt - f.beganAt} ms`,
      offset,
      f.explanation ?? `NOT EXPLAINED: ${f.message}`,
    ];
  });
  return [["request", "status", "took", "end", "why"], ...rows];
}

function statuses(attempts: Chapter["clients"][string]["attempts"]): Record<string, number> {
  return merge(Object.values(attempts));
}

function merge(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const merged: Record<string, number> = {};
  for (const count of counts) {
    for (const [key, n] of Object.entries(count)) merged[key] = (merged[key] ?? 0) + n;
  }
  return merged;
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  return counts;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
