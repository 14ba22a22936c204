import type { MoveReport } from "../../../activities/logical-cluster/types.ts";
import type { Span } from "../harness/fence-log.ts";
import type { ClientsReport, Failure } from "./program.ts";

/** A move as the clients must know it. */
export interface Moved {
  readonly report: MoveReport;
  /** From before its start until after its end. */
  readonly whole: Span;
  /** Fences of cutovers, or of attempts of one, that have opened the origin again. */
  readonly cameBack: readonly Span[];
}

/** A failed request, and how a move explains it. */
export interface Explained extends Failure {
  /** Number of the move that it belongs to. */
  readonly move?: number;
  readonly explanation?: string;
}

/** From when requests may be refused until the last front-proxy routes to the destination. */
function fenceOf({ switched, outage }: MoveReport): Span {
  return { from: switched!.fenceAt, until: switched!.switchedAt + outage!.routingMs };
}

const BROKEN_OFF = "cut in the middle of its answer";

/** The statuses that a cut and a fence may show, and where they come from in kcp v0.32.3: docs/clients.md. */
const AT_THE_CUT: Readonly<Record<number, string>> = {
  504: "cut, or came inside the fence: the cluster's request context at the origin was cancelled",
  502: BROKEN_OFF,
};
/** From the switch on only. */
const BEFORE_IT_WAS_READ = "reached the destination before that had read its new cluster";

/**
 * A provider talks to the shards' virtual workspaces, which no front-proxy routes: its requests may go to the shard
 * that does not serve the consumer yet, or no more.
 */
const OF_PROVIDER: Readonly<Record<number, string>> = {
  403: "went to the shard that does not serve the consumer yet, or no more",
  404: "came to an endpoint before its virtual workspace had the API",
  500: "the virtual workspace's own request was cut",
  503: "refused by the fence, to which the virtual workspace does not come back",
  504: "cut, or went to the shard whose request context of the consumer is cancelled",
};

/**
 * Every request that failed, with its explanation: its status is one that a move may cause, and some of its time lies
 * within the fence of a move (for a provider, within the move). One without an explanation is an error.
 */
export function explain({ chapters }: ClientsReport, moves: readonly Moved[]): Explained[] {
  return chapters
    .flatMap(({ clients }) => Object.values(clients).flatMap(({ failures }) => failures))
    .toSorted((a, b) => a.endedAt - b.endedAt)
    .map((failure) => ({ ...failure, ...explanationOf(failure, moves) }));
}

function explanationOf(failure: Failure, moves: readonly Moved[]): Pick<Explained, "move" | "explanation"> {
  const isWithin = ({ from, until }: Span) => failure.endedAt >= from && failure.beganAt <= until;
  const fenced = moves.findIndex(({ report, cameBack }) => [fenceOf(report), ...cameBack].some(isWithin));
  const isBrokenOff = failure.status === 0 && /stream error|unexpected EOF/.test(failure.message);
  const isSwitched = fenced >= 0 && failure.endedAt >= moves[fenced]!.report.switched!.switchedAt;
  const denied = failure.status === 403 && isSwitched ? BEFORE_IT_WAS_READ : undefined;
  const atTheCut = isBrokenOff ? BROKEN_OFF : (denied ?? AT_THE_CUT[failure.status]);
  if (fenced >= 0 && atTheCut !== undefined) return { move: fenced + 1, explanation: atTheCut };
  const index = moves.findIndex(({ whole }) => isWithin(whole));
  const isOfProvider = ["provider", "provider's informer"].includes(failure.client);
  const ofProvider = isOfProvider ? OF_PROVIDER[failure.status] : undefined;
  return index >= 0 && ofProvider !== undefined ? { move: index + 1, explanation: ofProvider } : {};
}
