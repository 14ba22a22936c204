import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Keeps the memory of a copy flat: what a page leaves behind is collected while it is young. */
const MEMORY = "--max-semi-space-size=16";
const WORKER = fileURLToPath(new URL("../../workers/worker.ts", import.meta.url));

/**
 * Runs a worker process with the given flags, in the foreground.
 *
 * @returns its exit code.
 */
export async function runWorker(flags: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [MEMORY, WORKER, ...flags], { stdio: "inherit" });
  // The worker drains first; this process ends when it has.
  const pass = (signal: NodeJS.Signals): void => {
    child.kill(signal);
  };
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.on(signal, pass);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => resolve(code ?? 1));
    });
  } finally {
    for (const signal of signals) process.off(signal, pass);
  }
}
