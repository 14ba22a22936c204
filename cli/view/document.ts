import { byteSize, count, duration, oneLine, words } from "./format.ts";
import { tableLines } from "./table.ts";

/**
 * Any JSON as a text for people: facts first, each on a line, then a section for whatever has parts of its own. Units
 * are read off the names (`drainMs`, `bytes`, `switchedAt`), which is why all of ours carry them.
 */
export function documentLines(document: Readonly<Record<string, unknown>>): string[] {
  const entries = Object.entries(document).filter(([, value]) => value !== undefined && value !== null);
  const sections = entries.filter(([, value]) => typeof value === "object");
  const lines = factLines(entries.filter(([, value]) => typeof value !== "object"));
  for (const [name, value] of sections) {
    if (lines.length > 0) lines.push("");
    lines.push(...sectionLines(name, value as object));
  }
  return lines;
}

function factLines(facts: readonly (readonly [string, unknown])[]): string[] {
  const width = Math.max(0, ...facts.map(([name]) => labelOf(name).length));
  return facts.map(([name, value]) => `${labelOf(name).padEnd(width)}  ${scalar(name, value)}`);
}

function sectionLines(name: string, value: object): string[] {
  const title = labelOf(name);
  if (!Array.isArray(value)) {
    const body = documentLines(withUnitOf(name, value as Record<string, unknown>));
    return body.length === 0
      ? [`${title}: none`]
      : [title, ...body.map((line) => (line === "" ? "" : `  ${line}`))];
  }
  if (value.length === 0) return [`${title}: none`];
  if (value.every(isRecord)) return [title, ...rowLines(value).map((line) => `  ${line}`)];
  return [title, ...value.map((item) => `  - ${scalar(name, item)}`)];
}

/** The unit of parts that have names of their own, such as those of `evenMs`, is in the name of the whole. */
function withUnitOf(name: string, parts: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(parts).map(([part, value]) => [
      part,
      typeof value === "number" && name.endsWith("Ms") ? duration(value) : value,
    ]),
  );
}

function rowLines(rows: readonly Readonly<Record<string, unknown>>[]): string[] {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return tableLines(
    columns.map(labelOf),
    rows.map((row) =>
      columns.map((column) => (row[column] === undefined ? "" : scalar(column, row[column]))),
    ),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The name without its unit, which the value has. */
function labelOf(name: string): string {
  return words(name === "ms" ? "took" : name.replace(/Ms$/, ""));
}

/** 2001-09-09 in ms since the epoch: a number from here on under a name in `…At` is a moment. */
const MOMENTS_FROM = 1e12;

function scalar(name: string, value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") {
    if (/(^ms|Ms)$/.test(name)) return duration(value);
    if (/(^b|B)ytes$/.test(name)) return byteSize(value);
    if (/(^at|At)$/.test(name) && value >= MOMENTS_FROM) return new Date(value).toISOString();
    return name === "hash" ? String(value) : count(value);
  }
  return oneLine(typeof value === "string" ? value : JSON.stringify(value));
}
