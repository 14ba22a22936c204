import type { Client } from "@temporalio/client";
import { operator, targetFrom, typedConnection, withClient } from "./connection.ts";
import type { ConnectionFlags } from "./connection.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { isNotFound } from "./problems.ts";
import { unknownMove } from "./commands/describe.ts";
import { commandFor } from "./view/hints.ts";
import type { Hints } from "./view/hints.ts";
import type { Outcome } from "./view/sight.ts";
import { watchMove } from "./watch.ts";

export const PROGRAM = "npm run rehome --";

/** One command at work. */
export interface Session {
  readonly client: Client;
  readonly hints: Hints;
}

export interface SessionFlags extends ConnectionFlags {
  readonly by?: string;
}

/** Runs a command that talks to Temporal. */
export async function inSession<T>(flags: SessionFlags, use: (session: Session) => Promise<T>): Promise<T> {
  const hints = { program: PROGRAM, connection: typedConnection(flags), by: flags.by ?? operator() };
  return await withClient(await targetFrom(flags), async (client) => await use({ client, hints }));
}

/**
 * Shows a move until it has ended, or until the person at the keyboard has seen enough: Ctrl-C ends the watching and
 * leaves the move alone.
 *
 * @throws CommandError when there is no such move, or when it was interrupted.
 */
export async function watchToTheEnd(
  { client, hints }: Session,
  workflowId: string,
  out: NodeJS.WritableStream,
): Promise<Outcome> {
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort();
  process.once("SIGINT", interrupt);
  try {
    const outcome = await watchMove({ client, workflowId, hints, out, signal: interrupted.signal });
    if (outcome !== undefined) return outcome;
  } catch (error) {
    if (isNotFound(error)) throw unknownMove(client, workflowId, hints, error);
    if (!interrupted.signal.aborted) throw error;
  } finally {
    process.off("SIGINT", interrupt);
  }
  const again = commandFor(hints, "watch", workflowId);
  throw new CommandError(EXIT.interrupted, `No longer watching; the move goes on. Watch it again: ${again}`);
}
