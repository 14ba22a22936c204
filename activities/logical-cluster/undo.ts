import { removeKeys } from "../../etcd/remove.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { hasDeadContext } from "../../kubernetes/kcp/probe.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { fenceOf, healContexts, openSession, releaseLocks } from "./session.ts";
import type { LogicalClusterActivities } from "./types.ts";
import { beginWork } from "./work.ts";

type Steps = Pick<LogicalClusterActivities, "dismantleFence" | "clearDestination" | "unlock">;

/** Undo, each safe to run again and safe to run when there is nothing to undo. */
export function createUndoActivities(site: KcpSite): Steps {
  return {
    async dismantleFence(subject) {
      using work = beginWork("Cutover");
      const session = await openSession(site, subject);
      await fenceOf(site, subject, session.from, subject.fence).dismantle();
      if (await hasDeadContext(session.from.api, subject.cluster)) {
        await healContexts(session.origin, session.from, work.signal);
      }
    },

    /** The destination held nothing of the cluster when the lock was taken, so all that it holds now came by the move. */
    async clearDestination(subject) {
      using work = beginWork("CopySnapshot");
      const session = await openSession(site, subject);
      const { store } = session.to;
      for (;;) {
        const ranges = await rangesOf(store, subject.cluster);
        if (ranges.length === 0) return;
        await removeKeys(session.destination, {
          ranges,
          unchangedSince: await store.head(),
          signal: work.signal,
          onProgress: (done) => work.tell({ done, unit: "keys" }),
        });
      }
    },

    async unlock(subject) {
      await releaseLocks(site, subject);
    },
  };
}
