import type { MoveReport } from "../../activities/logical-cluster/types.ts";
import type { Fence } from "./account.ts";

/** The moments of a move's fence, as its report tells them; undefined when it was never set. */
export function fenceOf({ switched, outage }: MoveReport): Fence | undefined {
  if (switched === undefined || outage === undefined) return undefined;
  const { fenceAt: askedAt, fencedAt: provenAt } = switched;
  return { askedAt, provenAt, routedAt: askedAt + outage.totalMs };
}
