import { condition } from "@temporalio/workflow";
import { failureType, isTemporalFailure, plainWords } from "./failures.ts";
import type { Journal } from "./journal.ts";
import type { Phase } from "./phase.ts";

/** Waits between attempts to undo a phase: soon at first, since the source is restricted meanwhile, then seldom. */
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15 * 60 * 1000;

/**
 * Undoes what was started, last first, and does not return before all of it is undone. A step that fails is tried
 * again, for ever and in its place: what was started before it may rely on it (a lock is dropped last). A person can
 * cut the wait short with `resume`.
 */
export async function undoAll<C>(journal: Journal, phases: readonly Phase<C>[], context: C): Promise<void> {
  if (journal.state.undo.length > 0) journal.record({ type: "undo started" });
  let waitMs = FIRST_WAIT_MS;
  for (let name = journal.state.undo.at(-1); name !== undefined; name = journal.state.undo.at(-1)) {
    const done = await undoOne(journal, phases, name, context);
    waitMs = done ? FIRST_WAIT_MS : await waitOrResume(journal, name, waitMs);
  }
}

async function undoOne<C>(
  journal: Journal,
  phases: readonly Phase<C>[],
  name: string,
  context: C,
): Promise<boolean> {
  const undo = phases.find((phase) => phase.name === name)?.undo;
  if (undo === undefined) throw new TypeError(`phase ${name} was started with an undo, but has none now`);
  journal.record({ type: "undo step started", phase: name });
  try {
    await undo(context);
  } catch (error) {
    if (!isTemporalFailure(error)) throw error;
    journal.record({
      type: "undo step failed",
      phase: name,
      failure: failureType(error),
      message: plainWords(error),
    });
    return false;
  }
  journal.record({ type: "undo step done", phase: name });
  return true;
}

/** @returns how long to wait the next time. */
async function waitOrResume(journal: Journal, name: string, waitMs: number): Promise<number> {
  const before = journal.state.resumes.length;
  journal.record({ type: "attention needed", phase: name });
  const summary = `Wait before trying again to undo ${name}`;
  const resumed = await condition(() => journal.state.resumes.length > before, waitMs, { summary });
  return resumed ? FIRST_WAIT_MS : Math.min(waitMs * 2, LONGEST_WAIT_MS);
}
