import { status } from "@grpc/grpc-js";
import type { ServiceError } from "@grpc/grpc-js";

/**
 * What a failed call means.
 *
 * Of `ambiguous` and `unreachable` nobody knows whether the change was made: only a linearizable member list tells.
 * After `unhealthy`, `not-enough-started`, `learner-not-ready`, `no-leader`, `not-leader`, `transfer-timeout` and
 * `busy` the same call may succeed later; after `peer-url-exists`, `member-exists`, `not-learner` and `not-found` an
 * earlier attempt may have succeeded.
 */
export type Failure =
  | "learner-not-ready"
  | "too-many-learners"
  | "peer-url-exists"
  | "member-exists"
  | "not-learner"
  | "not-found"
  | "unhealthy"
  | "not-enough-started"
  | "not-leader"
  | "no-leader"
  | "bad-transferee"
  | "transfer-timeout"
  | "busy"
  | "ambiguous"
  | "unreachable"
  | "refused-by-learner"
  | "compacted"
  | "future-revision"
  | "no-space"
  | "corrupt"
  | "foreign-cluster"
  | "other";

/**
 * etcd's texts (v3.6, api/v3rpc/rpctypes/error.go and server/etcdserver/errors). The text decides and not the code:
 * "not enough started members" and the leader transfer's timeout arrive with the code UNKNOWN.
 */
const texts: readonly (readonly [text: string, failure: Failure])[] = [
  ["can only promote a learner member which is in sync with leader", "learner-not-ready"],
  ["can only promote a learner member", "not-learner"],
  ["too many learner members in cluster", "too-many-learners"],
  ["Peer URLs already exists", "peer-url-exists"],
  ["member ID already exist", "member-exists"],
  ["member not found", "not-found"],
  ["re-configuration failed due to not enough started members", "not-enough-started"],
  ["unhealthy cluster", "unhealthy"],
  ["leader transfer took too long", "transfer-timeout"],
  ["bad leader transferee", "bad-transferee"],
  ["no leader", "no-leader"],
  ["not leader", "not-leader"],
  ["leader changed", "ambiguous"],
  ["request timed out", "ambiguous"],
  ["request canceled", "ambiguous"],
  ["server stopped", "ambiguous"],
  ["too many requests", "busy"],
  ["rpc not supported for learner", "refused-by-learner"],
  ["required revision has been compacted", "compacted"],
  ["required revision is a future revision", "future-revision"],
  ["database space exceeded", "no-space"],
  ["corrupt cluster", "corrupt"],
];

/** A call to one etcd member failed. */
export class MembershipError extends Error {
  override readonly name = "MembershipError";
  readonly failure: Failure;
  readonly endpoint: string;
  constructor(endpoint: string, call: string, failure: Failure, details: string, options?: ErrorOptions) {
    super(`${endpoint}: ${call}: ${details} (${failure})`, options);
    this.failure = failure;
    this.endpoint = endpoint;
  }
}

export type Refusal =
  /** Another learner is there, and etcd allows one. */
  | "foreign-learner"
  /** The member is not, or no longer, in the cluster. */
  | "unknown-member"
  /** The leader is not removed: move the leader first. */
  | "is-leader"
  /** A learner cannot lead, and its peer URLs are not changed: see `updatePeerUrls`. */
  | "is-learner"
  /** Another member has the peer URL. */
  | "peer-url-taken"
  /** The peer URL belongs to a voter already, so no learner can be added with it. */
  | "is-voter"
  /** The step would put the quorum at risk, whoever is healthy: see `judgeStep`. */
  | "endangers-quorum"
  /** Two members hold different data at one revision. */
  | "diverged";

/** The cluster is not in a state in which this may be done; trying again does not help. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
  readonly refusal: Refusal;
  constructor(refusal: Refusal, message: string) {
    super(message);
    this.refusal = refusal;
  }
}

/** The time given for a step is up. Whether it was done is unknown; doing it again finds out. */
export class GaveUpError extends Error {
  override readonly name = "GaveUpError";
}

export function asMembershipError(endpoint: string, call: string, error: unknown): MembershipError {
  const { code, details, message } = error as Partial<ServiceError>;
  const text = details || message || String(error);
  return new MembershipError(endpoint, call, failureOf(code, text), text, { cause: error });
}

/** @param code gRPC status code. */
export function failureOf(code: number | undefined, text: string): Failure {
  const known = texts.find(([part]) => text.includes(part));
  if (known) return known[1];
  if (code === status.UNAVAILABLE) return "unreachable";
  if (code === status.DEADLINE_EXCEEDED || code === status.CANCELLED || code === status.INTERNAL)
    return "ambiguous";
  return "other";
}
