import { setTimeout as pause } from "node:timers/promises";
import type { EtcdCluster } from "./cluster.ts";
import { GaveUpError, MembershipError } from "./errors.ts";
import type { Failure } from "./errors.ts";
import type { MemberList, Wait } from "./types.ts";

/** The first look after an unclear answer comes soon; etcd has no event for what is waited for, so it is asked again. */
const LOOK_AGAIN_MS = 200;
/** etcd counts a peer as connected after 5 s (`HealthInterval`): asking more often than this only fills its log. */
const ASK_AGAIN_MS = 1_000;

/** How long to wait before the next look; a failure that is not here ends the step. */
const pauses: Readonly<Partial<Record<Failure, number>>> = {
  ambiguous: LOOK_AGAIN_MS,
  unreachable: LOOK_AGAIN_MS,
  "peer-url-exists": LOOK_AGAIN_MS,
  "member-exists": LOOK_AGAIN_MS,
  "not-learner": LOOK_AGAIN_MS,
  "not-found": LOOK_AGAIN_MS,
  "too-many-learners": LOOK_AGAIN_MS,
  "transfer-timeout": LOOK_AGAIN_MS,
  "bad-transferee": LOOK_AGAIN_MS,
  "not-leader": LOOK_AGAIN_MS,
  "no-leader": LOOK_AGAIN_MS,
  "future-revision": LOOK_AGAIN_MS,
  busy: ASK_AGAIN_MS,
  unhealthy: ASK_AGAIN_MS,
  "not-enough-started": ASK_AGAIN_MS,
  "learner-not-ready": ASK_AGAIN_MS,
};

/** The member list, read linearizably: it shows every change that any client has been told of. */
export async function listMembers(cluster: EtcdCluster, signal?: AbortSignal): Promise<MemberList> {
  return await cluster.read(async (member, options) => await member.memberList(true, options), signal);
}

/** Something to bring about: `isDone` looks, `act` does, both again and again until it is so. */
export interface Goal<Seen, Result> {
  /** For messages: `promote 8e9e05c52164694d`. */
  readonly name: string;
  readonly look: (signal: AbortSignal) => Promise<Seen>;
  /** The result once it is so. @throws RefusedError when it can never be so. */
  readonly isDone: (seen: Seen) => Result | undefined;
  readonly act: (seen: Seen, signal: AbortSignal) => Promise<unknown>;
}

/**
 * Looks, acts, and looks again, until a look shows that it is done. Errors of `act` decide nothing but the pause before
 * the next look, since a call that failed may have been carried out, and one that was repeated fails.
 * @throws GaveUpError at the deadline; RefusedError; MembershipError for failures that waiting does not mend.
 */
export async function converge<Seen, Result>(
  cluster: EtcdCluster,
  goal: Goal<Seen, Result>,
  { signal, deadlineMs }: Wait,
): Promise<Result> {
  const deadline = AbortSignal.timeout(deadlineMs);
  const either = AbortSignal.any([signal, deadline]);
  let last: unknown;
  try {
    for (;;) {
      try {
        const seen = await goal.look(either);
        const result = goal.isDone(seen);
        if (result !== undefined) return result;
        await goal.act(seen, either);
      } catch (error) {
        either.throwIfAborted();
        const pauseMs = error instanceof MembershipError ? pauses[error.failure] : undefined;
        if (pauseMs === undefined) throw error;
        last = error;
        await pause(pauseMs, undefined, { signal: either });
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!deadline.aborted) throw error;
    const reason = last instanceof Error ? `: ${last.message}` : "";
    throw new GaveUpError(`${cluster.name}: ${goal.name} was not done in ${deadlineMs} ms${reason}`, {
      cause: last,
    });
  }
}
