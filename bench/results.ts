import { mkdir, writeFile } from "node:fs/promises";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { tableLines } from "../cli/view/table.ts";

/** One figure of one run. */
export interface Sample {
  readonly system: string;
  readonly size: number;
  readonly metric: string;
  readonly unit: string;
  readonly value: number;
}

/** One figure over all runs. */
export interface Row extends Omit<Sample, "value"> {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly runs: number;
}

/** Content of `bench/results/<name>.json`. */
export interface Results {
  readonly name: string;
  readonly machine: string;
  readonly rows: readonly Row[];
}

/**
 * Samples of the same system, size and metric become one row. Metrics stay in the order in which they first came; within
 * one the sizes rise and systems are in the order of their names, whichever came first in the first round.
 */
export function resultsOf(name: string, samples: readonly Sample[]): Results {
  const byMetric = Map.groupBy(samples, ({ metric }) => metric);
  const rows = [...byMetric.values()].flatMap((group) => {
    const bySystem = Map.groupBy(group, ({ system, size }) => `${size}\n${system}`);
    return [...bySystem.values()].map(rowOf).toSorted(bySizeAndSystem);
  });
  return { name, machine: describeMachine(), rows };
}

function bySizeAndSystem(a: Row, b: Row): number {
  if (a.size !== b.size) return a.size - b.size;
  return a.system < b.system ? -1 : a.system > b.system ? 1 : 0;
}

function rowOf(samples: readonly Sample[]): Row {
  const values = samples.map(({ value }) => value).toSorted((a, b) => a - b);
  const { value: _value, ...rest } = samples[0]!;
  return {
    ...rest,
    median: values[Math.floor((values.length - 1) / 2)]!,
    min: values[0]!,
    max: values.at(-1)!,
    runs: values.length,
  };
}

function describeMachine(): string {
  const [first] = cpus();
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores (${first?.model.trim() ?? "unknown"}), ${gib} GiB, ${process.platform} ${process.arch}, Node ${process.version}`;
}

/** Writes JSON and plot. @returns their paths */
export async function save(results: Results, folder: string, plot: string): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  const files = [join(folder, `${results.name}.json`), join(folder, `${results.name}.svg`)] as const;
  await writeFile(files[0], `${JSON.stringify(results, undefined, 2)}\n`);
  await writeFile(files[1], plot);
  return [...files];
}

export function lines({ machine, rows }: Results): string[] {
  const cells = rows.map(({ metric, system, size, median, min, max, unit, runs }) => [
    metric,
    system,
    String(size),
    `${round(median)} ${unit}`,
    runs === 1 ? "" : `${round(min)} to ${round(max)}`,
    String(runs),
  ]);
  return [machine, "", ...tableLines(["metric", "system", "size", "median", "range", "runs"], cells)];
}

function round(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}
