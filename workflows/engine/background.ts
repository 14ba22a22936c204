import { CancellationScope } from "@temporalio/workflow";
import { failure, isConclusive, isTemporalFailure } from "./failures.ts";
import type { Background } from "./phase.ts";

/** At most one piece of work that goes on beside the phases. */
export interface BackgroundWork {
  /** Why it ended, when it was not stopped. A defect of workflow code is here too, and must be thrown on as it is. */
  readonly failure: Error | undefined;
  /** Starts it unless it runs. */
  start(): void;
  /** Cancels it and waits for its end. What it does on its way out is done when this returns. */
  stop(): Promise<void>;
}

/** @param background nothing for a kind without such work: then start and stop do nothing. */
export function backgroundWork<C>(background: Background<C> | undefined, context: C): BackgroundWork {
  let running: { readonly scope: CancellationScope; readonly ended: Promise<void> } | undefined;
  let broken: Error | undefined;

  async function follow(work: Background<C>, scope: CancellationScope): Promise<void> {
    try {
      await scope.run(() => work.run(context));
      if (scope.consideredCancelled) return;
      broken = failure(
        "Unexpected",
        `${work.summary}: ended by itself, though it was to go on until ${work.until}`,
      );
    } catch (error) {
      // Stopped work may end with an error of a connection that it closed on its way out. Only what the activity itself
      // calls final counts then.
      if (scope.consideredCancelled && isTemporalFailure(error) && !isConclusive(error)) return;
      broken = error instanceof Error ? error : failure("Unexpected", String(error));
    }
  }

  return {
    get failure() {
      return broken;
    },
    start() {
      if (background === undefined || running !== undefined) return;
      const scope = new CancellationScope({ cancellable: true });
      running = { scope, ended: follow(background, scope) };
    },
    async stop() {
      const current = running;
      if (current === undefined) return;
      current.scope.cancel();
      await current.ended;
      running = undefined;
    },
  };
}
