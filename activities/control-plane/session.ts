import { activityInfo } from "@temporalio/activity";
import { SupersededError } from "../../etcd/errors.ts";
import { ClaimedError } from "../../hosting/types.ts";
import type { Hosting } from "../../hosting/types.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import type { ControlPlane, ControlPlaneSites } from "../../sites/control-planes.ts";
import { beginWork } from "../work.ts";
import type { Work } from "../work.ts";
import type { ControlPlaneSubject } from "./types.ts";

/** What a step works with: the control plane in both seeds, a signal, and heartbeats that go on by themselves. */
export interface Session extends ControlPlane, Work {
  readonly subject: ControlPlaneSubject;
}

/**
 * Attempts are ranked by when Temporal scheduled them: one attempt of a step after the other, one step after the other,
 * undone ones included.
 */
export function openControlPlane(
  sites: ControlPlaneSites,
  { move, controlPlane, from, to }: ControlPlaneSubject,
): ControlPlane {
  const claim = { move, epoch: activityInfo().currentAttemptScheduledTimestampMs };
  return sites.controlPlane(controlPlane, { source: from, destination: to }, claim);
}

/**
 * Makes an activity of a step: it runs only while its attempt holds the claim, so that one that wakes up after its move
 * has ended, or that goes on beside its successor or an undo, changes nothing.
 * @param phase the phase that its reports are shown with.
 */
export function step<I extends ControlPlaneSubject, O>(
  sites: ControlPlaneSites,
  phase: string,
  run: (session: Session, input: I) => Promise<O>,
): (input: I) => Promise<O> {
  return async (input) => {
    using work = beginWork(phase);
    const controlPlane = openControlPlane(sites, input);
    await controlPlane.hosting.requireClaim(work.signal);
    return await untilTakeover(controlPlane.hosting, work.signal, async (signal) => {
      return await run(sessionOf(controlPlane, { ...work, signal }, input), input);
    });
  };
}

/** @throws SupersededError as soon as somebody else holds the claim; the signal of what runs is aborted then. */
async function untilTakeover<O>(
  hosting: Hosting,
  signal: AbortSignal,
  run: (signal: AbortSignal) => Promise<O>,
): Promise<O> {
  const [taken, ended] = [new AbortController(), new AbortController()];
  const lookout = hosting.awaitTakeover(AbortSignal.any([signal, ended.signal])).then(
    () => taken.abort(new SupersededError("the control plane")),
    () => undefined,
  );
  try {
    return await run(AbortSignal.any([signal, taken.signal]));
  } catch (error) {
    taken.signal.throwIfAborted();
    throw error;
  } finally {
    ended.abort();
    await lookout;
  }
}

/**
 * As {@link step} for an undo: where the move never got its claim there is nothing to undo, and another's claim is
 * another's control plane.
 */
export function undoStep<I extends ControlPlaneSubject>(
  sites: ControlPlaneSites,
  phase: string,
  run: (session: Session, input: I) => Promise<void>,
): (input: I) => Promise<void> {
  const guarded = step(sites, phase, run);
  return async (input) => {
    try {
      await guarded(input);
    } catch (error) {
      if (!(error instanceof ClaimedError)) throw error;
    }
  };
}

function sessionOf(controlPlane: ControlPlane, work: Work, subject: ControlPlaneSubject): Session {
  return {
    ...controlPlane,
    subject,
    signal: work.signal,
    tell: (figures) => work.tell(figures),
    [Symbol.dispose]: () => work[Symbol.dispose](),
  };
}

/** The API server of one side, by the side's own address. */
export async function apiOf(
  { hosting, apiAt, signal }: Session,
  side: "source" | "destination",
): Promise<ApiServer> {
  return apiAt((await hosting.apiServerAddress(side, signal)).url);
}
