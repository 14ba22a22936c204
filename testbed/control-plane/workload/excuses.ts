import type { Call } from "../../workload/account.ts";
import type { TimedCall } from "./timeline.ts";

/** Why a write may fail although everybody has done what there is to do. Such writes are counted and told, not promised. */
export type Excuse = "cut" | "dropped";

/**
 * `cut`: a write on a kept HTTP/1.1 connection that met the end of its server. HTTP/1.1 has no GOAWAY, so that this
 * happens whoever ends the server.
 *
 * `dropped`: a write that came to etcd while its leader handed over, although writes are held then: the hand-over took
 * longer, or they could not be held (docs/adr/0009). A leader drops proposals from then on until there is a new
 * one (go.etcd.io/raft, `ErrProposalDropped`), those that other members have forwarded without a word; the member that
 * waits for it gives up after its request timeout. It names the leader only when none was elected again by then
 * (etcd server/etcdserver/server.go, parseProposeCtxErr).
 * @returns undefined for a call that has no excuse
 */
export function excuseOf({ protocol, call }: TimedCall): Excuse | undefined {
  if (isRead(call)) return undefined;
  const words = call.words ?? "";
  if (protocol === "http1" && call.status === 0 && /socket hang up|ECONNRESET|EPIPE/.test(words))
    return "cut";
  const isDropped = words.includes("etcdserver: request timed out") || words.includes("proposal dropped");
  return call.status === 500 && isDropped ? "dropped" : undefined;
}

function isRead({ verb }: Call): boolean {
  return verb === "get" || verb === "list";
}
