import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

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

function startOf(pid: number): string | undefined {
  return process.platform === "linux" ? startFromProc(pid) : startFromPs(pid);
}

function startFromProc(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  // The second field is the program's name in brackets, and may itself contain spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, startTicks] = [fields[0], fields[19]];
  return state === "Z" || state === "X" ? undefined : startTicks;
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
