import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { inside } from "../../testbed/network/places.ts";
import type { Place } from "../../testbed/network/places.ts";

const tcpEcho = join(import.meta.dirname, "fixtures", "tcp-echo.ts");

/** A TCP echo server or client as a process in a place; without a place, in the operator's network. */
export class Echo {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(mode: "serve" | "ask", place: Place | undefined, host: string, port: number) {
    const args = [tcpEcho, mode, host, String(port)];
    const run = place === undefined ? undefined : inside(place, process.execPath, args);
    this.#process = spawn(run?.command ?? process.execPath, run?.arguments ?? args, {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface({ input: this.#process.stdout as NodeJS.ReadableStream });
    this.#lines = lines[Symbol.asyncIterator]();
  }

  /** What it says next. */
  async line(): Promise<string> {
    const { value } = await this.#lines.next();
    return value as string;
  }

  /** Waits until a server listens. */
  async listening(): Promise<void> {
    await this.#expect("listening");
  }

  /** Waits until a client is connected. */
  async connected(): Promise<void> {
    await this.#expect("connected");
  }

  /** Sends a byte; {@link line} is then how long the answer took. */
  send(): void {
    this.#process.stdin?.write("\n");
  }

  /** How long a byte there and back takes, in ms. */
  async roundTripMs(): Promise<number> {
    this.send();
    return Number(await this.line());
  }

  end(): void {
    this.#process.kill("SIGKILL");
  }

  async #expect(wanted: string): Promise<void> {
    const said = await this.line();
    if (said !== wanted) throw new Error(`${said}, not ${wanted}`);
  }
}

/** Network namespaces and operator's links whose names begin with a bed's id. */
export function leftOf(id: string): string[] {
  const folders = ["/run/netns", "/sys/class/net"].filter((folder) => existsSync(folder));
  return folders.flatMap((folder) => readdirSync(folder).filter((name) => name.startsWith(id)));
}

/** Fails when something is left of a bed after `withinMs`. */
export async function waitUntilRemoved(id: string, withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (leftOf(id).length > 0) {
    if (performance.now() > deadline) throw new Error(`still there: ${leftOf(id).join(", ")}`);
    await delay(20);
  }
}
