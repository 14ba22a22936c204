import { activityInfo } from "@temporalio/activity";
import { ClaimedError } from "../../hosting/types.ts";
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
 * The control plane for one attempt. Attempts are ranked by when Temporal scheduled them: one attempt of a step after the
 * other, one step after the other, undone ones included.
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
  return beginning(sites, phase, async (session, input) => {
    await session.hosting.requireClaim(session.signal);
    return await run(session, input);
  });
}

/**
 * As {@link step} for an undo: where the move never got its claim there is nothing to undo. One that somebody has taken
 * away is missed: what would be left undone is what the control plane needs.
 */
export function undoStep<I extends ControlPlaneSubject>(
  sites: ControlPlaneSites,
  phase: string,
  run: (session: Session, input: I) => Promise<void>,
): (input: I) => Promise<void> {
  return beginning(sites, phase, async (session, input) => {
    try {
      await session.hosting.requireClaim(session.signal);
    } catch (error) {
      if (error instanceof ClaimedError && input.claimed !== true) return;
      throw error;
    }
    await run(session, input);
  });
}

/** As {@link step}; the claim is asked for by `run`, before anything else. */
export function beginning<I extends ControlPlaneSubject, O>(
  sites: ControlPlaneSites,
  phase: string,
  run: (session: Session, input: I) => Promise<O>,
): (input: I) => Promise<O> {
  return async (input) => {
    const controlPlane = openControlPlane(sites, input);
    using work = beginWork(phase);
    return await run(sessionOf(controlPlane, work, input), input);
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
