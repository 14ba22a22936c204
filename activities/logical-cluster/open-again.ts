import type { Fence } from "../../kubernetes/kcp/fence.ts";
import { answersThroughFence } from "../../kubernetes/kcp/probe.ts";
import type { FenceKind } from "../../kubernetes/kcp/probe.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { refuseDeleted } from "./deleted.ts";
import { healAfterInactive } from "./heal-inactive.ts";
import { beginHealing, fenceOf, healContexts } from "./session.ts";
import type { Session } from "./session.ts";
import { forgetFence, isFenceRecorded } from "./switched.ts";
import type { Subject } from "./types.ts";

/** Takes the fence off and makes the origin serve again, unless a newer attempt has taken over. */
export async function openAgain(
  session: Session,
  kind: FenceKind,
  fence: Fence,
  signal: AbortSignal,
): Promise<void> {
  await session.origin.check();
  // Before the fence goes, for nobody to come to a cancelled context. One that lives is left alone, as after an attempt that
  // died before its cut: what is under way would be cut off, and all wildcard watches of the shard. With `inactive` the write
  // is what makes an earlier attempt's mark come too late, whose only guard is the object's version.
  const lives =
    kind === "migration" &&
    (await answersThroughFence(session.from.replicas, session.cluster).catch(() => false));
  if (!lives) await beginHealing(session.origin, session.from, kind);
  await fence.lift();
  await healAll(session, kind, signal);
  await forgetFence(session);
}

/** Drops what the fence has left cancelled at the origin, of this cluster and of all. */
export async function healAll(session: Session, kind: FenceKind, signal: AbortSignal): Promise<void> {
  await healContexts(session.origin, session.from, kind, signal);
  // A cluster that is being deleted does not heal the others: kcp drops its context alone.
  if (kind === "inactive") await healAfterInactive(session, signal);
}

/** What an attempt has left that died, before all that takes its time: also after a reset, which goes back further. */
export async function openWhatIsFenced(
  site: KcpSite,
  session: Session,
  subject: Subject,
  signal: AbortSignal,
): Promise<void> {
  if (!(await isFenceRecorded(session))) return;
  await refuseDeleted(session.from, session.cluster);
  const fence = fenceOf(site, subject, session.from, async () => await session.origin.check());
  await openAgain(session, subject.fence, fence, signal);
}
