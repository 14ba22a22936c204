import { once } from "node:events";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Argument, Command, InvalidArgumentError } from "commander";
import { kinds } from "./kinds.ts";
import type { RunningTestbed } from "./kinds.ts";
import { Server } from "./process.ts";
import { buildPrograms, knownNames } from "./programs/main.ts";
import { tryLock } from "./programs/lock.ts";
import { clearLeftovers } from "./run-registry.ts";

interface UpOptions {
  readonly keepData?: boolean;
  readonly sizes: readonly number[];
}

const usageExitCode = 2;
const stateFolder = resolve(".rehome");
const descriptionFile = join(stateFolder, "testbed.json");

/** Brings the servers up, says `ready`, and stays until SIGINT, SIGTERM or the end of a server. */
async function up(kind: string, options: UpOptions): Promise<void> {
  const lock = await tryLock(join(stateFolder, "testbed.lock"));
  if (!("release" in lock)) throw new Error(`a test bed is up already (process ${lock.pid})`);
  const stopSignal = awaitStopSignal();
  const dir = join(stateFolder, kind);
  try {
    for (const name of await clearLeftovers()) tell(`ended ${name}, left running by a crash`);
    await rm(dir, { recursive: true, force: true });
    const testbed = await Promise.race([bringUp(kind, dir, options), stopSignal]);
    if (testbed === undefined) throw new Error("stopped before it was ready");
    console.log("ready");
    const crash = await Promise.race([stopSignal, ...testbed.servers.map((server) => server.crashed())]);
    tell("stopping");
    await testbed.stop();
    if (crash !== undefined) throw crash;
  } finally {
    await Server.stopAllRunning();
    await rm(descriptionFile, { force: true });
    if (!options.keepData) await rm(dir, { recursive: true, force: true });
    await lock.release();
  }
}

/** Starts everything and writes `.rehome/testbed.json`. */
async function bringUp(kind: string, dir: string, { sizes }: UpOptions): Promise<RunningTestbed> {
  const testbed = await (kinds[kind] as (typeof kinds)[string])({ dir, sizes, onProgress: tell });
  const processes = testbed.servers.map(({ pid, spec }) => ({ name: spec.name, pid, log: spec.logFile }));
  const description = { kind, pid: process.pid, dir, ...testbed.description, processes };
  await writeFile(descriptionFile, JSON.stringify(description, null, 2));
  return testbed;
}

async function awaitStopSignal(): Promise<undefined> {
  await Promise.race((["SIGINT", "SIGTERM"] as const).map((signal) => once(process, signal)));
}

function parseSizes(text: string, previous: readonly number[]): number[] {
  const sizes = text.split(",").map(Number);
  if (sizes.some((size) => !Number.isSafeInteger(size) || size < 1)) {
    throw new InvalidArgumentError("Wanted are numbers of objects above zero, e.g. 2000,20000.");
  }
  return [...new Set([...previous, ...sizes])];
}

function tell(line: string): void {
  console.error(`testbed: ${line}`);
}

function makeCommand(): Command {
  const command = new Command("testbed").description("Real servers on this machine, to try rehome against.");
  command
    .command("up")
    .description("Starts the servers of one kind of move and stays in the foreground until Ctrl-C.")
    .addArgument(new Argument("<kind>", "kind of move").choices(Object.keys(kinds)))
    .option(
      "--keep-data",
      "leave data, logs and certificates in .rehome/<kind> for inspection after the stop",
    )
    .option("--sizes <numbers>", "make a workspace with that many objects, for each number", parseSizes, [])
    .action(up);
  command
    .command("build")
    .description("Finds or builds the server programs and prints where they are.")
    .addArgument(
      new Argument("[names...]", "programs; all that are built from source when none is named").choices(
        knownNames,
      ),
    )
    .action(buildPrograms);
  return command;
}

if (import.meta.main) {
  await mkdir(stateFolder, { recursive: true });
  const command = makeCommand();
  for (const sub of [command, ...command.commands]) {
    sub.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : usageExitCode));
  }
  try {
    await command.parseAsync();
  } catch (error) {
    console.error(`testbed: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
