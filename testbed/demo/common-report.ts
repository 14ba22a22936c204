/** The first fields of `.rehome/report.json`, the same for all kinds of moves: what programs read. */
export interface CommonReport<Move extends { readonly kind: string; readonly phases: unknown }> {
  readonly kind: Move["kind"];
  readonly workflowId: string;
  readonly uiUrl: string;
  readonly verified: boolean;
  readonly requests: number;
  readonly failedRequests: number;
  readonly lostWrites: number;
  readonly longestGapMs: number;
  readonly missedEvents: number;
  readonly historyEvents: number;
  readonly phases: Move["phases"];
  /** What was broken, in words; empty when all is well. */
  readonly broken: readonly string[];
  readonly move: Move;
}

export interface CommonFacts<Move> {
  readonly workflowId: string;
  readonly uiUrl: string;
  readonly historyEvents: number;
  readonly move: Move;
  readonly clients: {
    readonly requests: number;
    readonly failedRequests: number;
    readonly lostWrites: number;
    readonly longestGapMs: number;
    readonly missedEvents: number;
  };
}

export function commonReport<
  Move extends { readonly kind: string; readonly phases: unknown; readonly verified: boolean },
>(facts: CommonFacts<Move>, broken: readonly string[]): CommonReport<Move> {
  const { workflowId, uiUrl, historyEvents, move, clients } = facts;
  const { requests, failedRequests, lostWrites, longestGapMs, missedEvents } = clients;
  return {
    kind: move.kind,
    workflowId,
    uiUrl,
    verified: move.verified,
    requests,
    failedRequests,
    lostWrites,
    longestGapMs,
    missedEvents,
    historyEvents,
    phases: move.phases,
    broken,
    move,
  };
}

/** Promises that were broken at least once, each with how often. */
export function inWords(counts: readonly (readonly [number, string])[]): string[] {
  return counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
}
