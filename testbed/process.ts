import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { freezeGroup, signalGroup } from "./process-group.ts";
import { identityOf } from "./process-identity.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import { RunRegistry } from "./run-registry.ts";

export interface ServerSpec {
  /** For people: names the server in error messages. */
  readonly name: string;
  readonly command: string;
  readonly arguments: readonly string[];
  readonly logFile: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Resolves when the server serves; rejects while it does not (it is then asked again). */
  readonly probe: (signal: AbortSignal) => Promise<void>;
  /** How long {@link Server.start} waits for the first good probe. */
  readonly readyWithinMs?: number;
}

/** How a server ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

interface Running {
  readonly identity: ProcessIdentity;
  readonly exited: Promise<Exit>;
  exit?: Exit;
}

const probeEveryMs = 100;
const probeTimeoutMs = 5_000;
const defaultReadyWithinMs = 120_000;
const defaultGraceMs = 10_000;

/**
 * A server process with its own process group and log file. It can be started
 * again with the same arguments after it was stopped or killed, and never
 * outlives this process (see {@link RunRegistry}).
 */
export class Server {
  /** Servers that this process has started and that have not ended, in the order of their starts. */
  static readonly #live = new Set<Server>();

  readonly spec: ServerSpec;
  #running: Running | undefined;
  #stopping = false;

  constructor(spec: ServerSpec) {
    this.spec = spec;
  }

  /** Stops every running server that this process has started, the latest first. */
  static async stopAllRunning(): Promise<void> {
    await stopAll([...Server.#live].toReversed());
  }

  /** Process id. Throws when the server does not run. */
  get pid(): number {
    if (!this.isRunning) throw new Error(`${this.spec.name} does not run`);
    return (this.#running as Running).identity.pid;
  }

  get isRunning(): boolean {
    return this.#running !== undefined && this.#running.exit === undefined;
  }

  /**
   * Starts the process and waits until it is ready. Otherwise stops it and
   * throws an Error that names the log and quotes its end.
   */
  async start(): Promise<this> {
    await this.spawn();
    try {
      await this.waitUntilReady();
    } catch (error) {
      await this.stop();
      throw error;
    }
    return this;
  }

  /** Starts the process without waiting for readiness. */
  async spawn(): Promise<void> {
    if (this.isRunning) throw new Error(`${this.spec.name} runs already`);
    this.#stopping = false;
    const running = await launch(this.spec);
    this.#running = running;
    Server.#live.add(this);
    void running.exited.then(() => Server.#live.delete(this));
  }

  /** Waits for the first good probe, or fails when the process ends or the time is up. */
  async waitUntilReady(): Promise<void> {
    const running = this.#running;
    if (running === undefined) throw new Error(`${this.spec.name} was not started`);
    const readyWithinMs = this.spec.readyWithinMs ?? defaultReadyWithinMs;
    const deadline = performance.now() + readyWithinMs;
    for (;;) {
      const failure = await this.#probeOnce();
      if (running.exit !== undefined)
        throw this.#error(`ended (${describeExit(running.exit)}) before it was ready`);
      if (failure === undefined) return;
      if (performance.now() > deadline) {
        const seconds = Math.round(readyWithinMs / 1000);
        throw this.#error(`was not ready after ${seconds} s (${failure})`);
      }
      await Promise.race([delay(probeEveryMs), running.exited]);
    }
  }

  /** Asks the server to end, and kills it after the grace time. Does nothing when it does not run. */
  async stop(graceMs = defaultGraceMs): Promise<void> {
    this.#stopping = true;
    const running = this.#running;
    if (running === undefined || running.exit !== undefined) return;
    signalGroup(running.identity, "SIGTERM");
    const timer = setTimeout(() => signalGroup(running.identity, "SIGKILL"), graceMs);
    await running.exited;
    clearTimeout(timer);
  }

  /** Kills the server at once, as a crash would. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.#running?.exited;
  }

  /** Stops the server as it stands, with all its connections; it does nothing more when this resolves. */
  async freeze(): Promise<void> {
    if (!this.isRunning) throw new Error(`${this.spec.name} does not run`);
    await freezeGroup((this.#running as Running).identity);
  }

  /** Lets a frozen server go on where it was. */
  thaw(): void {
    this.signal("SIGCONT");
  }

  /** Sends a signal to the server's process group. */
  signal(signal: NodeJS.Signals): void {
    if (signal === "SIGKILL" || signal === "SIGTERM") this.#stopping = true;
    if (this.#running !== undefined) signalGroup(this.#running.identity, signal);
  }

  /** Resolves with an Error if the server ends although nobody asked it to; never resolves otherwise. */
  async crashed(): Promise<Error> {
    const exit = await (this.#running as Running).exited;
    if (this.#stopping) return await new Promise(() => undefined);
    return this.#error(`ended by itself (${describeExit(exit)})`);
  }

  async #probeOnce(): Promise<string | undefined> {
    try {
      await this.spec.probe(AbortSignal.timeout(probeTimeoutMs));
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }

  #error(what: string): Error {
    const { name, logFile } = this.spec;
    return new Error(`${name} ${what}. Its log ${logFile} ends with:\n${lastLines(logFile)}`);
  }
}

/**
 * Starts a shell that waits for one line before it becomes the server (same
 * process id). The line is sent once the guardian knows the process; if this
 * process dies in between, the shell reads the end of the pipe and ends.
 */
async function launch(spec: ServerSpec): Promise<Running> {
  mkdirSync(dirname(spec.logFile), { recursive: true });
  const log = openSync(spec.logFile, "a");
  const script = 'read -r _ <&3 || exit 1; exec 3<&-; exec "$0" "$@"';
  const child = spawn("/bin/sh", ["-c", script, spec.command, ...spec.arguments], {
    detached: true,
    env: { ...ownEnvironment(), ...spec.environment },
    stdio: ["ignore", log, log, "pipe"],
  });
  closeSync(log);
  const gate = child.stdio[3] as Writable;
  // A server killed this early resets the pipe: its exit tells of that.
  gate.on("error", () => undefined);
  const exited = exitOf(child);
  if (child.pid === undefined) throw await spawnFailure(child, spec.name);
  const running: Running = { identity: identityOf(child.pid), exited };
  void exited.then((exit) => {
    running.exit = exit;
    return RunRegistry.instance.remove(running.identity.pid);
  });
  await RunRegistry.instance.add(spec.name, running.identity);
  gate.end("go\n");
  return running;
}

function exitOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
}

function spawnFailure(child: ChildProcess, name: string): Promise<Error> {
  return new Promise((resolve) => {
    child.once("error", (cause) => resolve(new Error(`${name} could not be started`, { cause })));
  });
}

function describeExit({ code, signal }: Exit): string {
  return signal === null ? `exit code ${code}` : `signal ${signal}`;
}

function lastLines(file: string, count = 15): string {
  return readFileSync(file, "utf8").trimEnd().split("\n").slice(-count).join("\n");
}

/** Stops servers in the given order, one after the other. */
export async function stopAll(servers: readonly Server[]): Promise<void> {
  for (const server of servers) await server.stop();
}

/** This process's environment without the operator's Temporal: what is tried here must never reach a real one. */
function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TEMPORAL_")));
}
