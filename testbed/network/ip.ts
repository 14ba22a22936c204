import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/**
 * Runs commands of `ip`, one a line, in this network or in a namespace.
 * All or none is not promised: it stops at the first that fails.
 * @throws Error with what `ip` said
 */
export async function ip(commands: readonly string[], namespace?: string): Promise<void> {
  await runIp([...(namespace === undefined ? [] : ["-n", namespace]), "-batch", "-"], commands.join("\n"));
}

/** Runs one command of `ip` that prints JSON. */
export async function ipJson<T>(...args: readonly string[]): Promise<T[]> {
  const output = (await runIp(["-json", ...args], "")).trim();
  // Some commands print nothing at all where others print an empty list.
  return output === "" ? [] : (JSON.parse(output) as T[]);
}

async function runIp(args: readonly string[], input: string): Promise<string> {
  const child = spawn("ip", [...args], { stdio: "pipe" });
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(`${input}\n`);
  const [code, output, errors] = await Promise.all([exited, text(child.stdout), text(child.stderr)]);
  if (code !== 0) throw new Error(`ip ${args.join(" ")} failed: ${errors.trim()}\n${input}`);
  return output;
}
