import { CancellationScope, condition } from "@temporalio/workflow";
import type { BackgroundWork } from "./background.ts";
import { failure } from "./failures.ts";
import type { Journal } from "./journal.ts";
import type { MigrationState } from "./state.ts";

/** Who an abort is ascribed to when it came as a cancellation of the workflow, which names nobody. */
export const CANCELLATION = "workflow cancellation";

/** The abort that a state asks for, as the error that ends the move. */
function abortion({ abort }: MigrationState): Error | undefined {
  return abort === undefined
    ? undefined
    : failure("Aborted", `aborted by ${abort.by}: ${abort.reason ?? ""}`);
}

/** What must stop the walk: an abort, or background work that failed. */
export function interruption(journal: Journal, background?: BackgroundWork): Error | undefined {
  return abortion(journal.state) ?? background?.failure;
}

/**
 * Heeds the cancellation of the workflow (the UI's Cancel button) as an abort, or says in the state why it is ignored.
 * Temporal delivers it once, so one that comes while the cutover is under way is kept for when it comes back.
 */
export function heedCancellation(journal: Journal, root: CancellationScope): void {
  root.cancelRequested.catch(() => {
    const { abortable, notAbortableBecause: why = "the move cannot be aborted" } = journal.state;
    if (abortable) abortByCancellation(journal);
    else journal.record({ type: "cancellation ignored", why });
  });
}

export function abortByCancellation(journal: Journal): void {
  journal.record({
    type: "abort asked",
    by: CANCELLATION,
    reason: "the workflow was cancelled",
    native: true,
  });
}

export interface Outcome<T> {
  readonly value?: T;
  /** Why it did not return. */
  readonly error?: Error;
  /** Why it was cancelled. It may have returned or failed all the same: its effect is not known. */
  readonly interrupted?: Error;
}

/**
 * Runs something, cancels it when `interrupted` answers an error, and in any case waits for its end: whatever undoes
 * it later must not run beside it.
 *
 * @param interrupted nothing for work that must not be cancelled.
 */
export async function runUntilInterrupted<T>(
  work: () => Promise<T>,
  interrupted: (() => Error | undefined) | undefined,
): Promise<Outcome<T>> {
  const scope = new CancellationScope({ cancellable: interrupted !== undefined });
  const progress = { ended: false };
  const outcome = scope
    .run(async () => await work())
    .then(
      (value): Outcome<T> => ({ value }),
      (error: unknown): Outcome<T> => ({
        error: error instanceof Error ? error : new TypeError(String(error)),
      }),
    )
    .finally(() => {
      progress.ended = true;
    });
  await condition(() => progress.ended || interrupted?.() !== undefined);
  const reason = interrupted?.();
  if (reason === undefined) return await outcome;
  scope.cancel();
  return { ...(await outcome), interrupted: reason };
}
