import { setTimeout as delay } from "node:timers/promises";
import { isAlive, isStopped } from "./process-identity.ts";
import type { ProcessIdentity } from "./process-identity.ts";

/** Time between asking a server to end and killing it, where nobody waits for its last words. */
const graceMs = 3_000;
const lookEveryMs = 50;
const freezeLookEveryMs = 5;

/** Sends a signal to the whole process group that the leader leads; a group that is gone is no error. */
export function signalGroup(leader: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isAlive(leader)) return;
  try {
    process.kill(-leader.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Stops a process group as it stands; its leader does nothing more when this resolves. */
export async function freezeGroup(leader: ProcessIdentity): Promise<void> {
  signalGroup(leader, "SIGSTOP");
  while (isAlive(leader) && !isStopped(leader)) await delay(freezeLookEveryMs);
}

/**
 * Ends process groups that are not children of this process: SIGTERM, then
 * SIGKILL to those that are left after three seconds. Leaders are compared by
 * their start time first, so a reused process id is never hit.
 */
export async function endProcessGroups(leaders: readonly ProcessIdentity[]): Promise<void> {
  for (const leader of leaders) signalGroup(leader, "SIGTERM");
  const deadline = performance.now() + graceMs;
  while (leaders.some(isAlive) && performance.now() < deadline) await delay(lookEveryMs);
  for (const leader of leaders) signalGroup(leader, "SIGKILL");
  while (leaders.some(isAlive)) await delay(lookEveryMs);
}
