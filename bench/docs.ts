import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Results, Row } from "./results.ts";

/** What the sizes of a benchmark are numbers of. */
const sizes: Readonly<Record<string, string>> = {
  outage: "objects",
  copy: "keys",
  tail: "ms to the destination",
  scan: "keys on the shard",
  history: "objects",
  bystanders: "objects that move",
  "control-plane": "requests a second",
};

const page = join(import.meta.dirname, "..", "docs", "benchmarks.md");

/** Puts the results into their place in docs/benchmarks.md. @returns the page's path */
export async function document(results: Results): Promise<string> {
  await writeFile(page, withResults(await readFile(page, "utf8"), results));
  return page;
}

/**
 * The page with these results between the marks `results of <name>: begin` and `: end`.
 * @throws Error when the page has no such marks
 */
export function withResults(text: string, results: Results): string {
  const [begin, end] = ["begin", "end"].map((which) => `<!-- results of ${results.name}: ${which} -->`) as [
    string,
    string,
  ];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from)
    throw new Error(`docs/benchmarks.md has no place for the results of ${results.name}`);
  return [text.slice(0, from + begin.length), "", sectionOf(results), "", text.slice(to)].join("\n");
}

function sectionOf({ name, machine, rows }: Results): string {
  const picture = `![${name}](../bench/results/${name}.svg)`;
  const runs = Math.max(...rows.map((row) => row.runs));
  const how = `Medians of ${runs} ${runs === 1 ? "round" : "rounds"}, in brackets the lowest and the highest. ${machine}.`;
  return [how, "", ...tableOf(rows, sizes[name] ?? "size"), "", picture].join("\n");
}

/** A line for each system and size, a column for each metric. */
function tableOf(rows: readonly Row[], title: string): string[] {
  const metrics = [...new Set(rows.map(titleOf))];
  const lines = [...Map.groupBy(rows, ({ system, size }) => `${size}\n${system}`).values()].map((group) => {
    const { size, system } = group[0]!;
    const cells = metrics.map((metric) => cellOf(group.find((row) => titleOf(row) === metric)));
    return [numberText(size), system, ...cells];
  });
  return aligned([[title, "system", ...metrics], ...lines]);
}

function titleOf({ metric, unit }: Row): string {
  return unit === metric ? metric : `${metric}, ${unit}`;
}

function cellOf(row: Row | undefined): string {
  if (row === undefined) return "";
  const { median, min, max } = row;
  return min === max
    ? numberText(median)
    : `${numberText(median)} (${numberText(min)} to ${numberText(max)})`;
}

export function numberText(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 2 : 0 });
}

/** As the formatter of this repository writes tables. */
function aligned(lines: readonly (readonly string[])[]): string[] {
  const widths = lines[0]!.map((_, column) => Math.max(3, ...lines.map((line) => line[column]!.length)));
  const text = lines.map(
    (line) => `| ${line.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`,
  );
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [text[0]!, rule, ...text.slice(1)];
}
