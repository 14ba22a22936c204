import type { Client, WorkflowExecutionInfo } from "@temporalio/client";
import { SEARCH_ATTRIBUTES } from "../../workflows/engine/names.ts";
import { indexedBy } from "../follow.ts";
import { serverWords } from "../problems.ts";
import { duration, oneLine, percent } from "../view/format.ts";
import { tableLines } from "../view/table.ts";

export interface ListedMove {
  readonly workflowId: string;
  readonly runId: string;
  readonly kind: string;
  /** Phase at work, or what holds or has ended the move; see `searchPhase` of the engine. */
  readonly phase: string;
  /** Share of phases behind, 0 to 1. */
  readonly progress: number;
  readonly subject: string;
  readonly source: string;
  readonly destination: string;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly endedAt?: string;
  readonly ms: number;
}

/**
 * Running moves, then finished ones, the latest first. Read from the server's index, which is a moment behind.
 *
 * @param limit how many at most.
 */
export async function listMoves(
  client: Client,
  { limit, running }: { limit: number; running: boolean },
): Promise<ListedMove[]> {
  const state = running ? " AND ExecutionStatus = 'Running'" : " AND ExecutionStatus != 'ContinuedAsNew'";
  const query = `${SEARCH_ATTRIBUTES.kind.name} IS NOT NULL${state}`;
  const moves: ListedMove[] = [];
  try {
    for await (const info of client.workflow.list({ query, pageSize: Math.min(limit, 100) })) {
      moves.push(listed(info));
      if (moves.length >= limit) break;
    }
  } catch (error) {
    // The worker registers the attributes at its start: where none has run, there is no move either.
    if (!serverWords(error).includes(SEARCH_ATTRIBUTES.kind.name)) throw error;
  }
  return moves;
}

/** What the index may be late or unable to say: a terminated move does not say so itself. */
const STATUS_WORDS: Readonly<Record<string, string>> = {
  COMPLETED: "Completed",
  CANCELLED: "Cancelled",
  TERMINATED: "Terminated",
  TIMED_OUT: "TimedOut",
};

function listed(info: WorkflowExecutionInfo): ListedMove {
  const { workflowId, runId, type, startTime, closeTime, status, typedSearchAttributes } = info;
  const { phase, subject, source, destination } = indexedBy(info);
  return {
    workflowId,
    runId,
    kind: type,
    phase: STATUS_WORDS[status.name] ?? phase ?? "",
    progress: typedSearchAttributes.get(SEARCH_ATTRIBUTES.progress) ?? 0,
    subject: subject ?? "",
    source: source ?? "",
    destination: destination ?? "",
    startedAt: startTime.toISOString(),
    ...(closeTime === undefined ? {} : { endedAt: closeTime.toISOString() }),
    ms: (closeTime?.getTime() ?? Date.now()) - startTime.getTime(),
  };
}

/** The moves as a table for people. */
export function listLines(moves: readonly ListedMove[], running: boolean): string[] {
  if (moves.length === 0) return [running ? "no move is running" : "no moves yet"];
  const rows = moves.map((move) => [
    oneLine(move.workflowId),
    oneLine(move.phase),
    percent(move.progress),
    move.destination === "" ? "" : `${oneLine(move.source)} → ${oneLine(move.destination)}`,
    `${move.startedAt.slice(0, 19)}Z`,
    duration(move.ms),
  ]);
  return tableLines(["MOVE", "PHASE", "DONE", "ROUTE", "STARTED", "TIME"], rows);
}
