import { once } from "node:events";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Argument, Command } from "commander";
import { paint } from "../../cli/view/screen.ts";
import { positiveNumber } from "../positive-number.ts";
import { Server } from "../process.ts";
import { tryLock } from "../programs/lock.ts";
import { clearLeftovers } from "../run-registry.ts";
import { demonstrateControlPlane } from "./control-plane.ts";
import type { Demo } from "./demo.ts";
import { demonstrateLogicalCluster } from "./logical-cluster.ts";

interface Flags {
  readonly objects: number;
  readonly requestsPerSecond: number;
  readonly keep?: boolean;
}

const usageExitCode = 2;
const brokenExitCode = 1;
const interruptedExitCode = 130;
const stateFolder = resolve(".rehome");
const kinds = {
  "logical-cluster": demonstrateLogicalCluster,
  "control-plane": demonstrateControlPlane,
} as const;

/** Runs the demo of one kind. @returns the exit code */
async function demo(kind: keyof typeof kinds, flags: Flags): Promise<number> {
  const lock = await tryLock(join(stateFolder, "demo.lock"));
  if (!("release" in lock)) throw new Error(`a demo is running already (process ${lock.pid})`);
  const interrupted = awaitStopSignal();
  const dir = join(stateFolder, "demo");
  const showing = new AbortController();
  let isKept = true;
  let done: Demo | undefined;
  try {
    await clearLeftovers();
    await rm(dir, { recursive: true, force: true });
    const { objects, requestsPerSecond } = flags;
    const running = kinds[kind]({
      dir,
      objects,
      requestsPerSecond,
      out: process.stdout,
      signal: showing.signal,
    });
    // After an interruption nobody waits for it any more, and it fails for want of servers.
    running.catch(() => undefined);
    done = await Promise.race([running, interrupted]);
    if (done === undefined) return interruptedExitCode;
    const exitCode = await tell(done);
    if (flags.keep === true) await keep(done, interrupted);
    isKept = exitCode !== 0;
    return exitCode;
  } finally {
    showing.abort();
    console.error("\nStopping the servers ...");
    await done?.stop();
    await Server.stopAllRunning();
    if (isKept) console.error(`Logs are in ${dir}.`);
    else await rm(dir, { recursive: true, force: true });
    await lock.release();
  }
}

/** Prints the report and writes `.rehome/report.json`. @returns the exit code */
async function tell({ report, lines }: Demo): Promise<number> {
  const file = join(stateFolder, "report.json");
  await writeFile(file, `${JSON.stringify(report, undefined, 2)}\n`);
  for (const line of lines) console.log(paint(line, process.stdout));
  console.log(`\nThe report for programs: ${file}`);
  return report.broken.length === 0 ? 0 : brokenExitCode;
}

/** Leaves everything running until Ctrl-C. @throws Error naming the server that has ended by itself */
async function keep({ report, hints, servers }: Demo, interrupted: Promise<undefined>): Promise<void> {
  const known = Object.entries({ "Temporal's UI": report.uiUrl, ...hints });
  const lines = known.map(([name, value]) => `  ${`${name}:`.padEnd(16)}${value}`);
  console.log(["", "All is left running until Ctrl-C.", ...lines].join("\n"));
  const crash = await Promise.race([interrupted, ...servers.map((server) => server.crashed())]);
  if (crash !== undefined) throw crash;
}

async function awaitStopSignal(): Promise<undefined> {
  await Promise.race((["SIGINT", "SIGTERM"] as const).map((signal) => once(process, signal)));
}

function makeCommand(): Command {
  return new Command("demo")
    .description(
      "Moves something that is in use between real servers on this machine, and reports how its clients fared.",
    )
    .addArgument(
      new Argument("[kind]", "kind of move").choices(Object.keys(kinds)).default("logical-cluster"),
    )
    .option("--objects <count>", "objects in the workspace", positiveNumber, 5000)
    .option("--requests-per-second <count>", "what the clients ask for, all together", positiveNumber, 100)
    .option("--keep", "leave everything running at the end, until Ctrl-C")
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : usageExitCode))
    .action(async (kind: keyof typeof kinds, flags: Flags) => {
      process.exitCode = await demo(kind, flags);
    });
}

if (import.meta.main) {
  await mkdir(stateFolder, { recursive: true });
  try {
    await makeCommand().parseAsync();
  } catch (error) {
    console.error(`demo: ${(error as Error).message}`);
    process.exitCode = brokenExitCode;
  }
  // Clients of an interrupted demo would otherwise go on asking servers that are gone.
  process.exit();
}
