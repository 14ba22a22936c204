import type { LateWrites } from "../../etcd/late.ts";
import type { Fence } from "../../kubernetes/kcp/fence.ts";
import { isFenced } from "../../kubernetes/kcp/probe.ts";
import type { FenceKind } from "../../kubernetes/kcp/probe.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { isDeleted } from "./deleted.ts";
import { carryLate, leaveOrigin } from "./leave-origin.ts";
import { awaitRouted } from "./routing.ts";
import { fenceOf, readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";
import { recordRouted } from "./switched.ts";
import type { Subject } from "./types.ts";

/** In which an API server that was killed is there again. */
const SOON = { everyMs: 250, deadlineMs: 20_000 };

/**
 * What comes right after the switch, safe to run again: every front-proxy is seen to lead to the destination, and what
 * reached the origin late is carried over. Where the fence is nothing but the memory of the origin's API server, the
 * cluster's object goes there: until then a restart would make the origin take writes again, and lead front-proxies back to it.
 *
 * @param drainedAt the origin's revision up to which the switch has carried everything over
 * @returns when all had been routed for the first time, ms; `late` is undefined when the cluster has been deleted.
 */
export async function reroute(
  site: KcpSite,
  session: Session,
  subject: Subject,
  drainedAt: bigint,
  signal: AbortSignal,
): Promise<{ routedAt: number; late: LateWrites | undefined }> {
  const fence = fenceOf(site, subject, session.from, async () => await session.origin.check());
  await awaitRouted(
    site,
    session,
    signal,
    async () => await keepFenced(session, fence, subject.fence, signal),
  );
  const routedAt = await recordRouted(session);
  // At once: an API server compacts the history some minutes after it was made, and a gate may come next.
  const late = (await isDeleted(session, site.frontProxy))
    ? undefined
    : await carryLate(session, drainedAt, signal);
  if (late && subject.fence === "migration") await leaveOrigin(site, session, drainedAt, signal);
  return { routedAt, late };
}

/**
 * {@link reroute} for the end of the Cutover, since a gate may come next, or the worker's end. What cannot be done in this
 * time AwaitRouting does, and says what is in its way.
 */
export async function rerouteSoon(
  site: KcpSite,
  session: Session,
  subject: Subject,
  drainedAt: bigint,
  signal: AbortSignal,
): Promise<void> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(SOON.deadlineMs)]);
  const isDone = async () => {
    await reroute(site, session, subject, drainedAt, soon);
    return true as const;
  };
  const what = `${session.cluster} has left ${session.from.name}`;
  await pollUntil(what, isDone, { ...SOON, signal: soon }).catch(() => undefined);
}

/** A restart of the origin forgets kcp's fence; while front-proxies still route there it is set again. */
async function keepFenced(
  { from, cluster, origin }: Session,
  fence: Fence,
  kind: FenceKind,
  signal: AbortSignal,
): Promise<void> {
  if (await isFenced(from.replicas, cluster, kind)) return;
  if (!(await readLogicalCluster(from, cluster))) return;
  await fence.prepare();
  // Not by an attempt that slept while the move went on: the cluster may be at home here again.
  await origin.check();
  await fence.set({ atOnce: false, signal });
}
