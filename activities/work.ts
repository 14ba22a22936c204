import { Context } from "@temporalio/activity";
import { z } from "zod";
import { heartbeatCursor } from "./heartbeat.ts";
import { progressReporter } from "./progress.ts";

/** What every long step has: an abort signal, a heartbeat that goes on by itself, and reports to the workflow. */
export interface Work extends Disposable {
  readonly signal: AbortSignal;
  tell(figures: Parameters<ReturnType<typeof progressReporter>>[0]): void;
}

/** Heartbeat details are for people here: where an attempt must go on is recorded in the stores themselves. */
const forPeople = z.unknown();

/** @param phase the phase that the reports are shown with. */
export function beginWork(phase: string): Work {
  const cursor = heartbeatCursor(forPeople);
  const report = progressReporter(phase);
  const alive = cursor.keepAlive();
  return {
    signal: Context.current().cancellationSignal,
    tell(figures) {
      cursor.beat({ phase, ...figures });
      report(figures);
    },
    [Symbol.dispose]: () => alive[Symbol.dispose](),
  };
}
