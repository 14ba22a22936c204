import { execFile, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { findProgram } from "../../testbed/programs/find.ts";

const run = promisify(execFile);

/** kubectl against one cluster. */
export class Kubectl {
  readonly #program: string;
  readonly #kubeconfig: string;

  private constructor(program: string, kubeconfig: string) {
    this.#program = program;
    this.#kubeconfig = kubeconfig;
  }

  static async create(kubeconfig: string): Promise<Kubectl> {
    return new Kubectl(await findProgram("kubectl"), kubeconfig);
  }

  async run(...args: readonly string[]): Promise<string> {
    const { stdout } = await run(this.#program, [`--kubeconfig=${this.#kubeconfig}`, ...args]);
    return stdout.trim();
  }

  async apply(...objects: readonly object[]): Promise<void> {
    const args = [`--kubeconfig=${this.#kubeconfig}`, "apply", "-f", "-"];
    const child = spawn(this.#program, args, { stdio: ["pipe", "ignore", "pipe"] });
    child.stdin.end(JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
    const [said, code] = await Promise.all([
      text(child.stderr),
      new Promise((resolve) => {
        child.once("exit", resolve);
      }),
    ]);
    if (code !== 0) throw new Error(said);
  }

  /** Value of a jsonpath of one object. */
  async get(object: string, path: string): Promise<string> {
    return await this.run("get", object, `-o=jsonpath={${path}}`);
  }

  async waitFor(object: string, condition: string, seconds = 20): Promise<void> {
    await this.run("wait", object, `--for=${condition}`, `--timeout=${seconds}s`);
  }
}

/** Asks until the answer is the wanted one. For facts that raise no event here: files, processes, network. */
export async function until<T>(
  ask: () => Promise<T>,
  wanted: (answer: T) => boolean,
  withinMs = 20_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const answer = await ask().catch((error: unknown) => error as Error);
    if (!(answer instanceof Error) && wanted(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`last answer: ${String(answer)}`);
    await delay(50);
  }
}

/** Ids of the processes whose command line contains a text. */
export async function processesWith(mark: string): Promise<string[]> {
  const { stdout } = await run("ps", ["-e", "-o", "pid="]);
  const lines = await Promise.all(
    stdout
      .trim()
      .split(/\s+/)
      .map(async (pid) => [pid, await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")] as const),
  );
  return lines.filter(([, line]) => line.includes(mark)).map(([pid]) => pid);
}
