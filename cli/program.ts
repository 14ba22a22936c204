import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { listLines, listMoves } from "./commands/list.ts";
import { sendMessage } from "./commands/messages.ts";
import type { Message } from "./commands/messages.ts";
import { outcomeJson, outcomeLines, reportOf } from "./commands/report.ts";
import { missingWorker, startMove, untilAdmitted } from "./commands/start.ts";
import { runWorker } from "./commands/worker.ts";
import { operator } from "./connection.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { defaultWorkflowId, inputFrom } from "./input.ts";
import type { InputFlags } from "./input.ts";
import { KIND_NAMES } from "./kinds.ts";
import { exitCodeOf } from "./outcome.ts";
import { inSession, PROGRAM, watchToTheEnd } from "./session.ts";
import type { SessionFlags } from "./session.ts";
import { commandFor } from "./view/hints.ts";

interface StartFlags extends SessionFlags, InputFlags {
  readonly workflowId?: string;
  readonly taskQueue?: string;
  readonly watch?: boolean;
  readonly json?: boolean;
}

type Finish = (exitCode: number) => void;

function say(lines: string | readonly string[]): void {
  process.stdout.write(`${typeof lines === "string" ? lines : lines.join("\n")}\n`);
}

/** What is no part of the answer, so that an answer can be piped on. */
function note(line: string | undefined): void {
  if (line !== undefined) process.stderr.write(`${line}\n`);
}

function wholeNumber(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("give a whole number from 1 on.");
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

function connected(command: Command): Command {
  return command
    .option(
      "--config <file>",
      "rehome.yaml, for its section `temporal` (default: ./rehome.yaml if there is one)",
    )
    .option("--address <host:port>", "Temporal's frontend; before TEMPORAL_ADDRESS and the file")
    .option("--namespace <name>", "namespace there; before TEMPORAL_NAMESPACE and the file");
}

function spoken(command: Command): Command {
  return connected(command).addOption(
    new Option("--by <name>", "who says so; kept in the history").default(operator(), "your user name"),
  );
}

function startable(command: Command): Command {
  return spoken(command)
    .argument("[kind]", `kind of move: ${KIND_NAMES.join(", ")} (default: as the options say)`)
    .option("--logical-cluster <path or id>", "workspace path or logical cluster id to move")
    .option("--control-plane <name>", "control plane to move, as the worker's configuration calls it")
    .option("--to <site>", "shard or seed to move it to")
    .option("--from <site>", "shard or seed that it is expected on; refused when it is elsewhere")
    .option("--gate <phase>", "wait for approval before this phase; may be repeated", collect)
    .option("--fence <kind>", "how writes are stopped during the cutover: auto, migration or inactive")
    .option("--input <json>", "the whole input as JSON; the options above replace its fields")
    .option("--workflow-id <id>", "id of the move (default: <kind>/<subject>)")
    .option("--task-queue <name>", "queue that its workers poll");
}

function addStart(program: Command, finish: Finish): void {
  startable(program.command("start"))
    .description("start a move, and tell whether its preflight refuses it")
    .option("--watch", "then watch it to its end, with watch's exit code")
    .action(async (kind: string | undefined, flags: StartFlags) => {
      const checked = inputFrom(kind, flags);
      await inSession(flags, async (session) => {
        const { workflowId } = await startMove(session.client, { ...flags, checked, hints: session.hints });
        const waiting = await missingWorker(session.client, flags.taskQueue);
        note(waiting);
        if (flags.watch === true) {
          finish(exitCodeOf(await watchToTheEnd(session, workflowId, process.stdout)));
          return;
        }
        say(`started ${workflowId}`);
        const outcome = waiting === undefined ? await untilAdmitted(session.client, workflowId) : undefined;
        if (outcome === undefined) {
          say(`watch it: ${commandFor(session.hints, "watch", workflowId)}`);
          return;
        }
        say(outcomeLines(checked.kindName, outcome));
        finish(exitCodeOf(outcome));
      });
    });
}

function addPlan(program: Command, finish: Finish): void {
  startable(program.command("plan"))
    .description("find out what a move would do, and change nothing")
    .option("--json", "the plan as JSON")
    .action(async (kind: string | undefined, flags: StartFlags) => {
      const typed = inputFrom(kind, flags);
      const checked = { ...typed, input: { ...typed.input, dryRun: true } };
      // A plan of its own name, so that a move that is running can be planned again.
      const planId = flags.workflowId ?? `${defaultWorkflowId(checked)}/plan`;
      await inSession(flags, async (session) => {
        const { client, hints } = session;
        const { workflowId } = await startMove(client, { ...flags, checked, hints, workflowId: planId });
        note(await missingWorker(client, flags.taskQueue));
        const outcome = await watchToTheEnd(session, workflowId, process.stderr);
        say(flags.json === true ? outcomeJson(outcome) : outcomeLines(checked.kindName, outcome));
        finish(exitCodeOf(outcome));
      });
    });
}

function addWatch(program: Command, finish: Finish): void {
  connected(program.command("watch"))
    .description("show a move until it has ended")
    .argument("<id>", "id of the move, as `list` shows it")
    .addHelpText(
      "after",
      "\nExit codes: 0 completed, 1 failed, 2 usage, 3 aborted or cancelled, 4 Temporal does not answer.",
    )
    .action(async (workflowId: string, flags: SessionFlags) => {
      await inSession(flags, async (session) => {
        finish(exitCodeOf(await watchToTheEnd(session, workflowId, process.stdout)));
      });
    });
}

interface ListFlags extends SessionFlags {
  readonly limit: number;
  readonly running?: boolean;
  readonly json?: boolean;
}

function addList(program: Command): void {
  connected(program.command("list"))
    .description("list running and recent moves")
    .option("--limit <count>", "how many at most", wholeNumber, 20)
    .option("--running", "only those that have not ended")
    .option("--json", "as JSON")
    .action(async ({ limit, running = false, json, ...flags }: ListFlags) => {
      await inSession(flags, async ({ client }) => {
        const moves = await listMoves(client, { limit, running });
        say(json === true ? JSON.stringify(moves, undefined, 2) : listLines(moves, running));
      });
    });
}

interface ReportFlags extends SessionFlags {
  readonly runId?: string;
  readonly json?: boolean;
}

function addReport(program: Command): void {
  connected(program.command("report"))
    .description("print how a move went")
    .argument("<id>", "id of the move, as `list` shows it")
    .option("--run-id <id>", "which of several moves of that id (default: the latest)")
    .option("--json", "the result as JSON")
    .action(async (workflowId: string, { runId, json, ...flags }: ReportFlags) => {
      await inSession(flags, async ({ client, hints }) => {
        const { kind, outcome } = await reportOf(client, workflowId, hints, runId);
        say(json === true ? outcomeJson(outcome) : outcomeLines(kind, outcome));
      });
    });
}

type SpokenFlags = SessionFlags & { readonly by: string; readonly reason?: string };

function because(reason: string | undefined): { reason?: string } {
  return reason === undefined ? {} : { reason };
}

async function talk(workflowId: string, flags: SpokenFlags, message: Message): Promise<void> {
  await inSession(flags, async ({ client, hints }) => {
    say(await sendMessage(client, workflowId, message, hints));
  });
}

function addMessages(program: Command): void {
  const message = (name: Message["name"], description: string): Command =>
    spoken(program.command(name))
      .description(description)
      .argument("<id>", "id of the move, as `list` shows it");
  message("approve", "let a move pass a gate, now or later")
    .requiredOption("--gate <phase>", "phase before which it waits")
    .option("--reason <text>", "why; kept in the history")
    .action(async (id: string, flags: SpokenFlags & { gate: string }) => {
      const argument = { gate: flags.gate, by: flags.by, ...because(flags.reason) };
      await talk(id, flags, { name: "approve", argument });
    });
  message("pause", "hold a move before its next phase")
    .option("--reason <text>", "why; kept in the history")
    .action(async (id: string, flags: SpokenFlags) => {
      await talk(id, flags, { name: "pause", argument: { by: flags.by, ...because(flags.reason) } });
    });
  message("resume", "end a pause, or run again what needs attention").action(
    async (id: string, flags: SpokenFlags) => {
      await talk(id, flags, { name: "resume", argument: { by: flags.by } });
    },
  );
  message("abort", "undo everything and end a move, as long as that is possible")
    .requiredOption("--reason <text>", "why; kept in the history")
    .action(async (id: string, flags: SpokenFlags & { reason: string }) => {
      await talk(id, flags, { name: "abort", argument: { by: flags.by, reason: flags.reason } });
    });
}

function addWorker(program: Command, finish: Finish): void {
  program
    .command("worker")
    .description("run a worker; `worker --help` lists its flags")
    .argument("[flags...]")
    .helpOption(false)
    .allowUnknownOption()
    .action(async (flags: readonly string[]) => finish(await runWorker(flags)));
}

function build(finish: Finish): Command {
  const program = new Command("rehome")
    .usage("<command> [options]")
    .description("Moves live systems between places as durable Temporal workflows.")
    .exitOverride()
    .showHelpAfterError(`See: ${PROGRAM} <command> --help`)
    .helpCommand(false);
  addWorker(program, finish);
  addPlan(program, finish);
  addStart(program, finish);
  addList(program);
  addWatch(program, finish);
  addMessages(program);
  addReport(program);
  return program;
}

/**
 * Runs one command line.
 *
 * @param words the arguments alone.
 * @returns the exit code.
 */
export async function run(words: readonly string[]): Promise<number> {
  let exitCode: number = EXIT.ok;
  const program = build((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(words, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    if (!(error instanceof CommandError)) throw error;
    note(error.message);
    return error.exitCode;
  }
  return exitCode;
}
