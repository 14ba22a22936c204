import { setTimeout as delay } from "node:timers/promises";
import { log } from "@temporalio/activity";
import { readFloor } from "../../etcd/floor.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { lockHolder } from "../../etcd/token.ts";
import { cleanupOrder } from "../../kubernetes/kcp/families.ts";
import { ANNOTATION } from "../../kubernetes/kcp/logical-cluster.ts";
import { fenceName } from "../../kubernetes/kcp/migration-fence.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { clearCopiesOf } from "./copies.ts";
import { isGone } from "./deleted.ts";
import { removeWatchedKeys } from "./remove-watched.ts";
import { healAll } from "./open-again.ts";
import { raiseAbove } from "./raise-above.ts";
import { fenceOf, openSession, readLogicalCluster, releaseLocks } from "./session.ts";
import type { Session } from "./session.ts";
import { forgetFence, isFenceRecorded, preventSwitch, refuseServed, servedThere } from "./switched.ts";
import { passDirection } from "./turn.ts";
import type { LogicalClusterActivities, Subject } from "./types.ts";
import { beginWork } from "../work.ts";
import type { Work } from "../work.ts";

type Steps = Pick<LogicalClusterActivities, "dismantleFence" | "clearDestination" | "unlock">;

/** A controller of the destination that has seen the copy may still answer it: nothing may come for this long. */
const QUIET_MS = 250;
const QUIET_LOOKS = 3;

/** Undo, each safe to run again and safe to run when there is nothing to undo. */
export function createUndoActivities(site: KcpSite): Steps {
  return {
    async dismantleFence(subject) {
      using work = beginWork("Cutover");
      await dismantle(site, await openSession(site, subject, { deletesOnly: true }), subject, work);
    },

    async clearDestination(subject) {
      using work = beginWork("CopySnapshot");
      const session = await openSession(site, subject, { deletesOnly: true });
      await passDirection(session, subject);
      await clear(site, session, work);
    },

    async unlock(subject) {
      using work = beginWork("AlignRevisions");
      const [from, to] = await Promise.all([site.shard(subject.from), site.shard(subject.to)]);
      const holders = await Promise.all(
        [from, to].map(async ({ store }) => await lockHolder(store, subject.cluster)),
      );
      // Once a lock is given back, there is nothing more to do.
      if (holders.every((holder) => holder === subject.move)) {
        await undoForgotten(site, await openSession(site, subject, { deletesOnly: true }), subject, work);
        if (await readFloor(to.store, subject.cluster)) await raiseAbove(from, to, subject, work);
      }
      await releaseLocks(site, subject);
    },
  };
}

async function dismantle(site: KcpSite, session: Session, subject: Subject, { signal }: Work): Promise<void> {
  if (await preventSwitch(session)) throw servedThere(session);
  const gone = await isGone(session.from, session.to, subject.cluster);
  const check = async () => await session.origin.check();
  // One that is not ours is somebody's suspension of the cluster.
  if (subject.fence === "migration" || (await isFenceRecorded(session)))
    await fenceOf(site, subject, session.from, check).dismantle(gone);
  await healAll(session, subject.fence, signal);
  await forgetFence(session);
}

/** After a reset nobody knows of the steps that it went back over but what they have left. Found in the stores alone. */
async function undoForgotten(site: KcpSite, session: Session, subject: Subject, work: Work): Promise<void> {
  const { cluster, from, to } = session;
  if (await preventSwitch(session)) throw servedThere(session);
  const there = await readLogicalCluster(from, cluster);
  const claim = there?.object.metadata.annotations?.[ANNOTATION.migrating];
  if ((await isFenceRecorded(session)) || claim?.endsWith(`:${fenceName(cluster)}`))
    await dismantle(site, session, subject, work);
  // Another move may have brought it there before this one had its locks.
  if (await readLogicalCluster(to, cluster)) return;
  if ((await rangesOf(to.store, cluster)).length > 0) await clear(site, session, work);
}

/** The destination held nothing of the cluster when the lock was taken, so all that it holds now came by the move. */
async function clear(site: KcpSite, session: Session, work: Work): Promise<void> {
  const { cluster, from, to, destination } = session;
  await refuseServed(session);
  for (let quiet = 0; quiet < QUIET_LOOKS; quiet += 1) {
    if (await removeAll(session, work)) quiet = 0;
    await delay(QUIET_MS, undefined, { signal: work.signal });
  }
  const shards = { gone: to.name, host: from.name };
  const check = async () => await destination.check();
  const left = await clearCopiesOf(site, { cluster, ...shards }, { check, signal: work.signal });
  if (left.length > 0) log.warn("left in kcp's cache", { left });
}

/** @returns whether there was anything to remove. */
async function removeAll(session: Session, work: Work): Promise<boolean> {
  const { store } = session.to;
  const ranges = cleanupOrder(await rangesOf(store, session.cluster));
  if (ranges.length === 0) return false;
  await removeWatchedKeys(session.destination, {
    ranges,
    unchangedSince: await store.head(),
    signal: work.signal,
    onProgress: (done) => work.tell({ done, unit: "keys" }),
  });
  return true;
}
