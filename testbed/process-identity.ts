import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/**
 * A process that can be recognised later: process ids are reused, but no two
 * processes have had the same id and the same start.
 */
export interface ProcessIdentity {
  readonly pid: number;
  /** Start in the system's own notation (on Linux: clock ticks since boot); only ever compared. */
  readonly start: string;
}

/** Identity of a running process. Throws an Error when there is none with this id. */
export function identityOf(pid: number): ProcessIdentity {
  const start = startOf(pid);
  if (start === undefined) throw new Error(`no process with id ${pid}`);
  return { pid, start };
}

/** Whether exactly this process still runs. A zombie does not: it holds no port, file or memory. */
export function isAlive(identity: ProcessIdentity): boolean {
  return startOf(identity.pid) === identity.start;
}

/** Whether SIGSTOP has reached every thread: the system returns from the call before that. */
export function isStopped({ pid }: ProcessIdentity): boolean {
  if (process.platform !== "linux")
    return execFileSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" }).startsWith("T");
  return readdirSync(`/proc/${pid}/task`).every(
    (thread) => statFields(`/proc/${pid}/task/${thread}/stat`)?.[0] === "T",
  );
}

function startOf(pid: number): string | undefined {
  return process.platform === "linux" ? startFromProc(pid) : startFromPs(pid);
}

function startFromProc(pid: number): string | undefined {
  const fields = statFields(`/proc/${pid}/stat`);
  const [state, startTicks] = [fields?.[0], fields?.[19]];
  return state === "Z" || state === "X" ? undefined : startTicks;
}

/** The fields of proc(5)'s `stat` from the third on, or undefined when there is no such process or thread any more. */
function statFields(file: string): string[] | undefined {
  try {
    const stat = readFileSync(file, "utf8");
    // The second field is the program's name in brackets, and may itself contain spaces and brackets.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

function startFromPs(pid: number): string | undefined {
  try {
    const line = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "utf8" }).trim();
    const [, state, start] = /^(\S+)\s+(.*)$/.exec(line) ?? [];
    return state?.startsWith("Z") ? undefined : start;
  } catch {
    return undefined;
  }
}
