import type { WriteStream } from "node:tty";
import type { Client } from "@temporalio/client";
import { follow } from "../../cli/follow.ts";
import { ChangeLog } from "../../cli/view/changes.ts";
import { count, duration } from "../../cli/view/format.ts";
import { frameOf } from "../../cli/view/frame.ts";
import type { Hints } from "../../cli/view/hints.ts";
import { span } from "../../cli/view/line.ts";
import type { Line } from "../../cli/view/line.ts";
import { openScreen } from "../../cli/view/screen.ts";
import type { Outcome, Sight } from "../../cli/view/sight.ts";
import type { Pulse } from "../workload/clients.ts";
import { isTerminal } from "./steps.ts";

export interface WatchedMove {
  readonly client: Client;
  readonly workflowId: string;
  readonly clients: { pulse(): Pulse };
  readonly hints: Hints;
  readonly out: WriteStream;
  /** Ends the showing, not the move. */
  readonly signal: AbortSignal;
  /** Told of each look at the move, before it is shown. */
  readonly onSight?: (sight: Sight) => void;
}

/** The account of the clients is gone through anew each time, so not too often. */
const pulseEveryMs = 2000;

/** Shows the move, and below it how its clients fare, until it has ended. */
export async function watchToTheEnd({
  client,
  workflowId,
  clients,
  hints,
  out,
  signal,
  onSight,
}: WatchedMove): Promise<Outcome> {
  const view = openView(out, hints);
  try {
    let pulse = clients.pulse();
    let takenAt = performance.now();
    for await (const sight of follow({ client, workflowId, signal })) {
      onSight?.(sight);
      const isOld = performance.now() - takenAt > pulseEveryMs || sight.outcome !== undefined;
      if (isOld) [pulse, takenAt] = [clients.pulse(), performance.now()];
      view.show(sight, pulse, isOld);
      if (sight.outcome !== undefined) return sight.outcome;
    }
    signal.throwIfAborted();
    throw new Error(`${workflowId} could not be followed to its end`);
  } finally {
    view.close();
  }
}

interface View {
  show(sight: Sight, pulse: Pulse, isNew: boolean): void;
  close(): void;
}

function openView(out: WriteStream, hints: Hints): View {
  if (isTerminal(out)) {
    const screen = openScreen(out);
    return {
      show: (sight, pulse) =>
        screen.draw([
          ...frameOf(sight, hints, { columns: out.columns, rows: out.rows - 3 }),
          [],
          clientsLine(pulse),
        ]),
      close: () => screen.close(),
    };
  }
  const log = new ChangeLog(hints);
  return {
    show(sight, pulse, isNew) {
      for (const line of log.linesFor(sight)) out.write(`${line}\n`);
      if (isNew) out.write(`${clientsWords(pulse)}\n`);
    },
    close: () => undefined,
  };
}

function clientsLine(pulse: Pulse): Line {
  return [span(clientsWords(pulse), pulse.failed === 0 ? "good" : "warn")];
}

function clientsWords({ requests, perSecond, failed, longestGapMs }: Pulse): string {
  const gap = `longest gap ${duration(longestGapMs)}`;
  return `clients: ${count(requests)} requests, ${perSecond}/s, ${count(failed)} failed, ${gap}`;
}
