import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { endProcessGroups } from "./process-group.ts";
import { identityOf, isAlive } from "./process-identity.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import { cacheRoot } from "./programs/cache.ts";

/** What one process has started, as kept in `<cache>/run/<pid>-<start>.json`. */
interface RunFile {
  readonly parent: ProcessIdentity;
  readonly guardian: ProcessIdentity;
  readonly servers: readonly (ProcessIdentity & { readonly name: string })[];
}

/**
 * Knows the servers of this process, and sees to it that they do not outlive
 * it: a guardian process ends them at once, and should it be gone too, the next
 * process that starts a server does ({@link clearLeftovers}). Made on first use; one per process.
 */
export class RunRegistry {
  static #instance: RunRegistry | undefined;
  static #cleared: Promise<unknown> | undefined;
  readonly #servers = new Map<number, ProcessIdentity & { name: string }>();
  readonly #self = identityOf(process.pid);
  readonly #file: string;
  readonly #guardian: ChildProcess;
  readonly #guardianIdentity: ProcessIdentity;

  static get instance(): RunRegistry {
    return (RunRegistry.#instance ??= new RunRegistry());
  }

  private constructor() {
    mkdirSync(runFolder(), { recursive: true });
    this.#file = join(runFolder(), `${this.#self.pid}-${this.#self.start}.json`);
    this.#guardian = spawn(process.execPath, [join(import.meta.dirname, "guardian.ts"), this.#file], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    if (this.#guardian.pid === undefined) throw new Error("the guardian process could not be started");
    this.#guardianIdentity = identityOf(this.#guardian.pid);
    // Neither the guardian nor the pipe to it may keep this process alive: they end because it ends.
    this.#guardian.unref();
    (this.#guardian.stdin as unknown as { unref(): void }).unref();
    this.#guardian.stdin?.on("error", () => undefined);
  }

  /** Resolves when the guardian is certain to end this server should this process die now. */
  async add(name: string, server: ProcessIdentity): Promise<void> {
    await (RunRegistry.#cleared ??= clearLeftovers());
    this.#servers.set(server.pid, { ...server, name });
    this.#write();
    await this.#tellGuardian(`add ${server.pid} ${server.start}`);
  }

  /** Forgets a server that has ended. */
  async remove(pid: number): Promise<void> {
    this.#servers.delete(pid);
    this.#write();
    await this.#tellGuardian(`remove ${pid}`);
  }

  #write(): void {
    const content: RunFile = {
      parent: this.#self,
      guardian: this.#guardianIdentity,
      servers: [...this.#servers.values()],
    };
    writeFileSync(`${this.#file}.new`, JSON.stringify(content));
    renameSync(`${this.#file}.new`, this.#file);
  }

  async #tellGuardian(line: string): Promise<void> {
    const pipe = this.#guardian.stdin;
    if (pipe === null || !pipe.writable || !isAlive(this.#guardianIdentity)) return;
    if (!pipe.write(`${line}\n`)) await once(pipe, "drain");
    // Once the buffer is empty the line is in the kernel's pipe, where it outlives this process.
    if (pipe.writableLength > 0) await new Promise<void>((resolve) => pipe.write("", () => resolve()));
  }
}

/** Ends what crashed processes have left running; returns the names of the servers ended. */
export async function clearLeftovers(): Promise<string[]> {
  const ended: string[] = [];
  mkdirSync(runFolder(), { recursive: true });
  for (const name of readdirSync(runFolder()).filter((entry) => entry.endsWith(".json"))) {
    const file = join(runFolder(), name);
    const run = readRunFile(file);
    if (run === undefined || isAlive(run.parent) || isAlive(run.guardian)) continue;
    const left = run.servers.filter(isAlive);
    await endProcessGroups(left);
    ended.push(...left.map((server) => server.name));
    rmSync(file, { force: true });
  }
  return ended;
}

function readRunFile(file: string): RunFile | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as RunFile;
  } catch {
    // Its guardian has deleted it between listing and reading.
    return undefined;
  }
}

function runFolder(): string {
  return join(cacheRoot(), "run");
}
