import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { inTurns } from "../../../bench/bench.ts";
import { withResults } from "../../../bench/docs.ts";
import { plotOf } from "../../../bench/plot.ts";
import { resultsOf } from "../../../bench/results.ts";
import type { Results, Row } from "../../../bench/results.ts";

const folder = join(import.meta.dirname, "../../..", "bench/results");
const page = readFileSync(join(import.meta.dirname, "../../..", "docs/benchmarks.md"), "utf8");
const names = ["outage", "copy", "tail", "scan", "history", "bystanders", "control-plane"];

/** The formatter pads the cells of tables. */
const squeezed = (text: string) => text.replaceAll(/ +/g, " ").replaceAll(/-{3,}/g, "---");

const sample = (system: string, size: number, value: number, metric = "rate") => ({
  system,
  size,
  metric,
  unit: "keys/s",
  value,
});

const spread = ({ median, min, max, runs }: Row) => `${median} (${min} to ${max}) of ${runs}`;

describe("results", () => {
  it("are medians with the lowest and the highest, for each system, size and metric", () => {
    const { rows } = resultsOf("copy", [
      sample("b", 10, 5),
      sample("a", 10, 1),
      sample("a", 2, 7, "other"),
      sample("b", 10, 3),
      sample("b", 2, 9),
      sample("b", 10, 4),
    ]);
    const facts = rows.map((row) => `${row.metric}, ${row.system}, ${row.size}: ${spread(row)}`);
    expect(facts).toEqual([
      "rate, b, 2: 9 (9 to 9) of 1",
      "rate, a, 10: 1 (1 to 1) of 1",
      "rate, b, 10: 4 (3 to 5) of 3",
      "other, a, 2: 7 (7 to 7) of 1",
    ]);
  });

  it("begin with another system in each round", () => {
    expect([0, 1, 2, 3].map((round) => inTurns(["a", "b", "c"], round).join(""))).toEqual([
      "abc",
      "bca",
      "cab",
      "abc",
    ]);
  });

  it.each(names)("of %s have a place in the documentation, which holds nothing but them", (name) => {
    const written = withResults(page, resultsOf(name, [sample("a", 10, 1_234)]));
    expect(written).toContain("1,234");
    expect(withResults(written, resultsOf(name, [sample("a", 10, 5_678)]))).not.toContain("1,234");
  });

  it("are in the documentation and in the plots as they are in the files", () => {
    for (const file of globSync(join(folder, "*.json"))) {
      const results = JSON.parse(readFileSync(file, "utf8")) as Results;
      expect(squeezed(withResults(page, results))).toBe(squeezed(page));
      expect(readFileSync(file.replace(/json$/, "svg"), "utf8")).toBe(plotOf(results));
    }
  });
});
