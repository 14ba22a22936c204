import type { WriteStream } from "node:tty";
import { follow } from "./follow.ts";
import type { FollowOptions } from "./follow.ts";
import { ChangeLog } from "./view/changes.ts";
import { frameOf } from "./view/frame.ts";
import type { Hints } from "./view/hints.ts";
import { openScreen } from "./view/screen.ts";
import type { Outcome, Sight } from "./view/sight.ts";

export interface WatchOptions extends FollowOptions {
  readonly hints: Hints;
  /** Painted over when it is a terminal, else written to line by line. */
  readonly out: NodeJS.WritableStream;
  /** Sees what is shown. */
  readonly onSight?: (sight: Sight) => void;
}

/**
 * Shows a move until it has ended.
 *
 * @returns how it ended; undefined when `signal` has ended the watching before.
 * @throws as {@link follow}.
 */
export async function watchMove(options: WatchOptions): Promise<Outcome | undefined> {
  const show = openView(options);
  let outcome: Outcome | undefined;
  try {
    for await (const sight of follow(options)) {
      show.sight(sight);
      options.onSight?.(sight);
      outcome = sight.outcome;
    }
  } finally {
    show.close();
  }
  return outcome;
}

interface View {
  sight(sight: Sight): void;
  close(): void;
}

function openView({ out, hints }: WatchOptions): View {
  if (isTerminal(out)) {
    const screen = openScreen(out);
    return {
      sight: (sight) => screen.draw(frameOf(sight, hints, { columns: out.columns, rows: out.rows - 1 })),
      close: () => screen.close(),
    };
  }
  const log = new ChangeLog(hints);
  return {
    sight(sight) {
      for (const line of log.linesFor(sight)) out.write(`${line}\n`);
    },
    close: () => undefined,
  };
}

function isTerminal(out: NodeJS.WritableStream): out is WriteStream {
  // A terminal that cannot move its cursor gets lines.
  return "isTTY" in out && out.isTTY === true && process.env["TERM"] !== "dumb";
}
