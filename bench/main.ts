import { join, resolve } from "node:path";
import { Argument, Command } from "commander";
import { positiveNumber } from "../testbed/positive-number.ts";
import { Server } from "../testbed/process.ts";
import { clearLeftovers } from "../testbed/run-registry.ts";
import { benchControlPlane } from "./control-plane.ts";
import { plotOf } from "./plot.ts";
import { lines, resultsOf, save } from "./results.ts";
import type { Sample } from "./results.ts";

/** One round of each benchmark measures every system once, so that rounds are interleaved. */
const benches: Readonly<Record<string, (dir: string) => Promise<Sample[]>>> = {
  "control-plane": benchControlPlane,
};

const results = join(import.meta.dirname, "results");

async function bench(name: string, { runs }: { readonly runs: number }): Promise<void> {
  await clearLeftovers();
  const samples: Sample[] = [];
  try {
    for (let round = 1; round <= runs; round++) {
      console.error(`bench ${name}: round ${round} of ${runs}`);
      samples.push(...(await benches[name]!(resolve(".rehome", `bench-${round}`))));
    }
  } finally {
    await Server.stopAllRunning();
  }
  const found = resultsOf(name, samples);
  const files = await save(found, results, plotOf(found));
  console.log([...lines(found), "", ...files].join("\n"));
}

if (import.meta.main) {
  const command = new Command("bench")
    .description("Measures rehome beside its peers on this machine.")
    .addArgument(
      new Argument("[name]", "what to measure").choices(Object.keys(benches)).default("control-plane"),
    )
    .option("--runs <count>", "rounds; the figures are medians", positiveNumber, 3)
    .action(bench);
  await command.parseAsync();
  process.exit();
}
