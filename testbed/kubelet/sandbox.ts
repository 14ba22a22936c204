import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

export interface Mount {
  /** Folder or file on the node. */
  readonly source: string;
  /** Absolute path in the container; made there if it does not exist. */
  readonly target: string;
  readonly isFile: boolean;
  readonly readOnly: boolean;
}

export interface SandboxSpec {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly hostname: string;
  readonly workingDir: string;
  readonly mounts: readonly Mount[];
  /** Empty folder of the node on which the container's root is mounted, visible to the container only. */
  readonly scratch: string;
  /** Output is appended to it. */
  readonly logFile: string;
}

export interface SandboxExit {
  /** As a shell tells it: 128 + signal for a process ended by a signal. */
  readonly code: number;
  readonly signal?: number;
}

const signalNumbers: Partial<Record<NodeJS.Signals, number>> = { SIGKILL: 9, SIGTERM: 15, SIGINT: 2 };

/**
 * Builds the container's root and becomes its program. The root of the node is
 * the lower layer of an overlay with its upper layer in memory, so that mount
 * points (and whatever the program writes outside of its volumes) vanish with
 * the last process and never reach the disk. Volumes are mounted after the
 * change of root: a link like /var/run -> /run would lead out of it before.
 */
const script = String.raw`
set -e
read -r pid rest < /proc/self/stat
read -r go <&3
exec 3<&-
host=$1 name=$2 dir=$3 mounts=$4
shift 4
echo "$name" > /proc/sys/kernel/hostname
mount -t tmpfs -o mode=755 rehome "$host"
mkdir "$host/upper" "$host/work" "$host/root"
mount -t overlay -o "lowerdir=/,upperdir=$host/upper,workdir=$host/work" rehome "$host/root"
cd "$host/root"
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mkdir .node
pivot_root . .node
cd /
while [ "$mounts" -gt 0 ]; do
  kind=$1 access=$2 source=$3 target=$4
  shift 4
  mounts=$((mounts - 1))
  if [ "$kind" = file ]; then
    mkdir -p "$(dirname "$target")"
    rm -f "$target"
    : > "$target"
  else
    mkdir -p "$target"
  fi
  mount --bind "/.node$source" "$target"
  [ "$access" = rw ] || mount -o remount,bind,ro "$target"
done
umount -l .node
rmdir .node
mkdir -p "$dir"
cd "$dir"
echo "$pid" >&4
exec 4>&-
exec "$@"
`;

/**
 * One run of a container's program as a local process, in mount, process and
 * host name namespaces of its own. It shares the network namespace of the node.
 * No process of it outlives this one: the namespace's first process is killed by
 * the kernel with its parent, and the others with it.
 */
export class Sandbox {
  /** The first process of the container, as the node numbers it. */
  readonly pid: number;
  readonly exited: Promise<SandboxExit>;
  readonly environment: Readonly<Record<string, string>>;
  readonly #child: ChildProcess;

  private constructor(spec: SandboxSpec, child: ChildProcess, pid: number, exited: Promise<SandboxExit>) {
    this.environment = spec.environment;
    this.#child = child;
    this.pid = pid;
    this.exited = exited;
  }

  /** Starts the program. @throws Error when its namespaces or mounts cannot be made; the log tells why */
  static async start(spec: SandboxSpec): Promise<Sandbox> {
    mkdirSync(spec.scratch, { recursive: true });
    mkdirSync(dirname(spec.logFile), { recursive: true });
    const log = openSync(spec.logFile, "a");
    const child = spawn("setpriv", sandboxArguments(spec), {
      detached: true,
      env: spec.environment,
      stdio: ["ignore", log, log, "pipe", "pipe"],
    });
    closeSync(log);
    const exited = exitOf(child);
    const gate = child.stdio[3] as Writable;
    gate.on("error", () => undefined);
    // Without this line the script ends by itself: also where the node dies before it has sent it.
    gate.end("go\n");
    const pid = await firstLine(child.stdio[4] as Readable);
    if (pid === undefined) {
      const { code } = await exited;
      throw new Error(`the container could not be set up (exit code ${code}), see ${spec.logFile}`);
    }
    return new Sandbox(spec, child, Number(pid), exited);
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Signals the first process. It ignores what it has no handler for, except SIGKILL: as in any container. */
  signal(signal: NodeJS.Signals): void {
    if (!this.isRunning) return;
    try {
      process.kill(this.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** Runs a command beside the program. @returns its exit code; undefined when it took too long and was killed */
  async execute(command: readonly string[], timeoutMs: number): Promise<number | undefined> {
    const enter = ["--target", String(this.pid), "--mount", "--pid", "--uts", "--root", "--wd"];
    const child = spawn("nsenter", [...enter, "setpriv", "--pdeathsig", "KILL", ...command], {
      env: this.environment,
      stdio: "ignore",
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    const { signal, code } = await exitOf(child);
    return signal === undefined ? code : undefined;
  }
}

function sandboxArguments(spec: SandboxSpec): string[] {
  const unshare = [
    "unshare",
    "--mount",
    "--pid",
    "--uts",
    "--fork",
    "--kill-child",
    "--propagation",
    "private",
  ];
  const mounts = spec.mounts.flatMap(({ isFile, readOnly, source, target }) => [
    isFile ? "file" : "folder",
    readOnly ? "ro" : "rw",
    source,
    target,
  ]);
  const own = [spec.scratch, spec.hostname, spec.workingDir, String(spec.mounts.length), ...mounts];
  return ["--pdeathsig", "KILL", ...unshare, "/bin/sh", "-c", script, "container", ...own, ...spec.command];
}

/** The first line, or undefined when the stream ends before. It does not end with the script: its parent has it, too. */
async function firstLine(stream: Readable): Promise<string | undefined> {
  for await (const line of createInterface({ input: stream })) return line;
  return undefined;
}

async function exitOf(child: ChildProcess): Promise<SandboxExit> {
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  if (signal === null) return { code: code as number };
  const number = signalNumbers[signal] ?? 0;
  return { code: 128 + number, signal: number };
}
