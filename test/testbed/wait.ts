import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { isAlive } from "../../testbed/process-identity.ts";
import type { ProcessIdentity } from "../../testbed/process-identity.ts";

/** A Node program of ours as a child process with both outputs piped. */
export function startNode(file: string, args: readonly string[], cwd?: string): ChildProcess {
  return spawn(process.execPath, [file, ...args], { stdio: ["ignore", "pipe", "pipe"], ...(cwd && { cwd }) });
}

/** The first line of a child's output that matches. Fails with all its words if it ends before. */
export async function lineOf(child: ChildProcess, pattern: RegExp): Promise<string> {
  const said: string[] = [];
  child.stderr?.on("data", (chunk: Buffer) => said.push(chunk.toString()));
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    if (pattern.test(line)) return line;
    said.push(`${line}\n`);
  }
  throw new Error(`ended without a line ${pattern}: ${said.join("")}`);
}

/** Exit code of a child, also if it has ended before. */
export async function exitCodeOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.exitCode;
}

/** How long it took until none of the processes was left, in ms. Fails after `withinMs`. */
export async function waitUntilGone(
  processes: readonly ProcessIdentity[],
  withinMs: number,
): Promise<number> {
  const started = performance.now();
  for (;;) {
    const left = processes.filter(isAlive);
    const elapsed = performance.now() - started;
    if (left.length === 0) return elapsed;
    if (elapsed > withinMs) throw new Error(`still running: ${left.map(({ pid }) => pid).join(", ")}`);
    // The death of another process' child raises no event here.
    await delay(20);
  }
}
