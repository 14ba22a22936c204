import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What happened to an instance of a controller. `refused`: another one was alive, in whichever seed. */
export interface FenceEvent {
  readonly at: string;
  readonly controller: string;
  readonly pod: string;
  readonly event: "started" | "leading" | "stopped" | "refused";
}

const journal = "journal.jsonl";

/**
 * Proves that this is the only living instance of a controller over all seeds,
 * for as long as this process lives: with a lock of the kernel on a file that
 * they share. It cannot be left behind by a crash.
 */
export class Fence {
  readonly #folder: string;
  readonly #controller: string;
  readonly #pod: string;

  constructor(folder: string, controller: string, pod: string) {
    this.#folder = folder;
    this.#controller = controller;
    this.#pod = pod;
  }

  /** Throws, and notes it in the journal, when another instance is alive. */
  enter(): void {
    mkdirSync(this.#folder, { recursive: true });
    const lock = openSync(join(this.#folder, `${this.#controller}.lock`), "a");
    // The lock belongs to the open file, which this process shares with the program that takes it.
    const { status } = spawnSync("flock", ["--nonblock", "3"], {
      stdio: ["ignore", "ignore", "inherit", lock],
    });
    this.note(status === 0 ? "started" : "refused");
    if (status !== 0) throw new Error(`another ${this.#controller} is alive: refusing to run beside it`);
  }

  note(event: FenceEvent["event"]): void {
    const line: FenceEvent = {
      at: new Date().toISOString(),
      controller: this.#controller,
      pod: this.#pod,
      event,
    };
    appendFileSync(join(this.#folder, journal), `${JSON.stringify(line)}\n`);
  }
}

/** Everything that instances have noted, in order; empty when none has ever started. */
export function readFenceJournal(folder: string): FenceEvent[] {
  mkdirSync(folder, { recursive: true });
  const text = readFileSync(join(folder, journal), { encoding: "utf8", flag: "a+" });
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as FenceEvent);
}
