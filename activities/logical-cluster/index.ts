import type { KcpSite } from "../../sites/kcp.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { createCutover } from "./cutover.ts";
import { createFinishActivities } from "./finish.ts";
import { createPreflight } from "./preflight.ts";
import { refuseDeleted } from "./deleted.ts";
import { fenceOf, mustHoldLock, openSession, readLogicalCluster } from "./session.ts";
import { createTransferActivities } from "./transfer.ts";
import { mustHaveDirection, mustHaveTurn } from "./turn.ts";
import type { LogicalClusterActivities } from "./types.ts";
import { createUndoActivities } from "./undo.ts";
import { beginWork } from "../work.ts";

/** The steps of `logicalClusterMigration` against real shards. */
export function createLogicalClusterActivities(site: KcpSite): LogicalClusterActivities {
  return {
    preflight: createPreflight(site),

    async lock(subject) {
      const session = await openSession(site, subject, { create: true });
      // From here on no other move can copy the cluster; what Preflight saw may have changed until now.
      const [stored, leftovers] = await Promise.all([
        readLogicalCluster(session.from, subject.cluster),
        rangesOf(session.to.store, subject.cluster),
      ]);
      if (stored && leftovers.length === 0) return;
      await Promise.all([session.origin.release(), session.destination.release()]);
      throw failure("Refused", {
        message: `${subject.cluster} has changed its place since Preflight`,
        found: stored ? `keys at ${subject.to}` : `no LogicalCluster at ${subject.from}`,
        advice: "another move has ended meanwhile: look where the cluster is, and start again",
      });
    },

    async takeTurn(subject) {
      using _ = beginWork("Tail");
      const [from, to] = await Promise.all([site.shard(subject.from), site.shard(subject.to)]);
      if (subject.fence === "inactive") await mustHaveTurn(from, subject, "Timeout");
      if (subject.revisions !== "accept-relist") await mustHaveDirection(from, to, subject, "Timeout");
    },

    async prepareFence(subject) {
      const from = await site.shard(subject.from);
      await refuseDeleted(from, subject.cluster);
      // Without a token of its own: the changes that are carried over meanwhile have it.
      await fenceOf(site, subject, from, async () => await mustHoldLock(from, subject)).prepare();
    },

    cutover: createCutover(site),
    ...createTransferActivities(site),
    ...createFinishActivities(site),
    ...createUndoActivities(site),
  };
}
