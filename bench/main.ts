import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Argument, Command } from "commander";
import { positiveNumber } from "../testbed/positive-number.ts";
import { Server } from "../testbed/process.ts";
import { clearLeftovers } from "../testbed/run-registry.ts";
import type { Bench } from "./bench.ts";
import { bystanders } from "./bystanders.ts";
import { controlPlaneMove } from "./control-plane.ts";
import { copy } from "./copy.ts";
import { document } from "./docs.ts";
import { history } from "./history.ts";
import { outage } from "./outage.ts";
import { plotOf } from "./plot.ts";
import { lines, resultsOf, save } from "./results.ts";
import type { Sample } from "./results.ts";
import { scan } from "./scan.ts";
import { tail } from "./tail.ts";

const benches: Readonly<Record<string, Bench>> = {
  outage,
  copy,
  tail,
  scan,
  history,
  bystanders,
  "control-plane": controlPlaneMove,
};

const results = join(import.meta.dirname, "results");

interface Flags {
  readonly runs?: number;
  readonly sizes?: readonly number[];
  readonly document: boolean;
}

async function bench(name: string, flags: Flags): Promise<void> {
  const { round, runs: usual, sizes } = benches[name]!;
  const runs = flags.runs ?? usual;
  await clearLeftovers();
  const samples: Sample[] = [];
  try {
    for (let number = 0; number < runs; number++) {
      console.error(`bench ${name}: round ${number + 1} of ${runs}`);
      const dir = resolve(".rehome", `bench-${number + 1}`);
      await rm(dir, { recursive: true, force: true });
      samples.push(...(await round({ dir, number, sizes: flags.sizes ?? sizes })));
      await rm(dir, { recursive: true, force: true });
    }
  } finally {
    await Server.stopAllRunning();
  }
  const found = resultsOf(name, samples);
  const files = flags.document ? [...(await save(found, results, plotOf(found))), await document(found)] : [];
  console.log([...lines(found), "", ...files].join("\n"));
}

function numbers(text: string): number[] {
  return text.split(",").map(positiveNumber);
}

function abouts(): string[] {
  return Object.entries(benches).map(([name, { about }]) => `  ${name}: ${about}`);
}

if (import.meta.main) {
  const command = new Command("bench")
    .description(["Measures rehome beside its peers on this machine:", ...abouts()].join("\n"))
    .addArgument(new Argument("[name]", "what to measure; all when left out").choices(Object.keys(benches)))
    .option("--runs <count>", "rounds; the figures are medians", positiveNumber)
    .option("--sizes <numbers>", "instead of the usual ones, e.g. 1000,20000", numbers)
    .option("--no-document", "only print: leave bench/results and docs/benchmarks.md as they are")
    .action(async (name: string | undefined, flags: Flags) => {
      for (const one of name === undefined ? Object.keys(benches) : [name]) await bench(one, flags);
    });
  await command.parseAsync();
  process.exit();
}
