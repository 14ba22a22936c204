import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { createInterface } from "node:readline";
import { findProgram } from "../programs/find.ts";
import { ip } from "./ip.ts";
import { wireDevice } from "./places.ts";
import type { Place } from "./places.ts";

/** What the program says after each command. Counted are both directions since the start. */
export interface WireStatus {
  readonly delayMs: number;
  readonly cut: boolean;
  readonly packets: number;
  readonly bytes: number;
  /** Packets lost: to a cut, or because more were under way than the wire holds. */
  readonly dropped: number;
}

interface Command {
  readonly delayMs?: number;
  readonly cut?: boolean;
}

/**
 * A line between two places that takes its time and can be cut: a program that
 * carries IP packets from a network device of one to one of the other. It ends
 * with this process, since the kernel closes its standard input then.
 */
export class Wire {
  readonly ends: readonly [Place, Place];
  readonly #program: ChildProcess;
  readonly #answers: AsyncIterator<string>;
  readonly #logFile: string;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(ends: readonly [Place, Place], program: ChildProcess, logFile: string) {
    this.ends = ends;
    this.#program = program;
    this.#logFile = logFile;
    const lines = createInterface({ input: program.stdout as NodeJS.ReadableStream });
    this.#answers = lines[Symbol.asyncIterator]();
    program.stdin?.on("error", () => undefined);
  }

  /** Lays a wire without delay, and the routes over it. Both namespaces must exist. */
  static async lay(ends: readonly [Place, Place], logFile: string): Promise<Wire> {
    const [left, right] = ends;
    const args = [left.namespace, wireDevice(right.name), right.namespace, wireDevice(left.name)];
    const command = await findProgram("wire");
    const log = openSync(logFile, "a");
    // A group of its own: a terminal's Ctrl-C must not cut the servers off while they are being stopped.
    const program = spawn(command, args, { detached: true, stdio: ["pipe", "pipe", log] });
    closeSync(log);
    const started = new Promise<never>((_resolve, reject) => program.once("error", reject));
    const wire = new Wire(ends, program, logFile);
    await Promise.race([wire.status(), started]);
    await Promise.all([route(left, right), route(right, left)]);
    return wire;
  }

  /** Sets how long a packet is under way in each direction, so that a round trip takes twice as long. */
  async setDelay(oneWayMs: number): Promise<void> {
    await this.#tell({ delayMs: oneWayMs });
  }

  /** From now on nothing arrives, and nobody is told: as where a cable is cut or a firewall drops. */
  async cut(): Promise<void> {
    await this.#tell({ cut: true });
  }

  async mend(): Promise<void> {
    await this.#tell({ cut: false });
  }

  async status(): Promise<WireStatus> {
    return await this.#tell({});
  }

  /** Takes the wire away with its devices and routes. */
  async remove(): Promise<void> {
    if (this.#program.exitCode !== null || this.#program.signalCode !== null) return;
    const ended = once(this.#program, "exit");
    this.#program.stdin?.end();
    await ended;
  }

  /** One command at a time, so that each answer belongs to its command. */
  async #tell(command: Command): Promise<WireStatus> {
    const answer = this.#last.then(async () => {
      this.#program.stdin?.write(`${JSON.stringify(command)}\n`);
      const { value, done } = await this.#answers.next();
      const [left, right] = this.ends;
      const name = `the wire between ${left.name} and ${right.name}`;
      if (done) throw new Error(`${name} is gone, its log is ${this.#logFile}`);
      const status = JSON.parse(value) as WireStatus & { error?: string };
      if (status.error !== undefined) throw new Error(`${name}: ${status.error}`);
      return status;
    });
    this.#last = answer.catch(() => undefined);
    return await answer;
  }
}

async function route(from: Place, to: Place): Promise<void> {
  const device = wireDevice(to.name);
  const commands = [`link set ${device} up`, `route add ${to.subnet} dev ${device} src ${from.address}`];
  await ip(commands, from.namespace);
}
