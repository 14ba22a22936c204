import { logicalClusterKey } from "../../etcd/keys.ts";
import { carryLateWrites, settleLateWrite } from "../../etcd/late.ts";
import type { LateWrites } from "../../etcd/late.ts";
import { removeKeys } from "../../etcd/remove.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { remove, when } from "../../etcd/store.ts";
import type { Entry } from "../../etcd/store.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { writtenByShard } from "../../kubernetes/kcp/allowed.ts";
import { cleanupOrder } from "../../kubernetes/kcp/families.ts";
import { annotate, isStandIn, logicalClusterPath } from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { isSeenFenced } from "./cutover-checks.ts";
import { carryLateMarks } from "./late-marks.ts";
import { removeWatchedKeys } from "./remove-watched.ts";
import { PROOF, awaitRouted, nameShardInOwner, touch } from "./routing.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session, StoredLogicalCluster } from "./session.ts";
import type { Cleaned } from "./types.ts";
import type { Work } from "../work.ts";

/** After a restart the origin's controllers write to kcp's own objects, whatever the fence refuses to others. */
const isShardsOwn = (before: Entry, after: Entry) =>
  writtenByShard(before.key, before.value, after.value) !== undefined;

/** What reached the origin's store after the drain is carried over: {@link carryLateWrites}. */
export async function carryLate(
  { origin, destination }: Session,
  drainedAt: bigint,
  signal: AbortSignal,
): Promise<LateWrites> {
  return await carryLateWrites(origin, destination, { drainedAt, isShardsOwn, signal });
}

/** Empties the origin of a cluster that was deleted at the destination: nothing is carried over any more. */
export async function removeRemains(session: Session, work: Work): Promise<Cleaned> {
  const { from, origin, cluster } = session;
  await removeLogicalCluster(session, await from.store.head());
  const deleted = await removeKeys(origin, {
    ranges: cleanupOrder(await rangesOf(from.store, cluster)),
    unchangedSince: 0n,
    signal: work.signal,
    onLate: async () => true,
    onProgress: (done) => work.tell({ done, unit: "keys" }),
  });
  return { deleted, lateWrites: 0, conflicts: [], historyLost: false };
}

/**
 * Takes the cluster's object away at the origin, once the destination is proven to serve. Where the fence is no mark of it, it
 * goes before all else, and before a gate: while it stands, a front-proxy that lists anew, or whose informers resync, may take the origin for the
 * place of the cluster again (kcp v0.32.3, pkg/index/index.go).
 */
export async function leaveOrigin(
  site: KcpSite,
  session: Session,
  drainedAt: bigint,
  signal: AbortSignal,
): Promise<void> {
  await proveRouted(site, session, signal);
  await removeLogicalCluster(session, drainedAt);
  await touch(session);
  await awaitRouted(site, session, signal);
}

/** Every front-proxy shows the destination's object, which takes writes, and its owner names the destination. */
export async function proveRouted(site: KcpSite, session: Session, signal: AbortSignal): Promise<void> {
  await awaitRouted(site, session, signal);
  await proveServing(site.frontProxy, session.cluster);
  const check = async () => await session.origin.check();
  await nameShardInOwner(site.frontProxy, session.cluster, session.to.name, check);
}

/** Nothing is deleted before the destination has served a read and taken a write through the front-proxy. */
async function proveServing(proxy: ApiServer, cluster: string): Promise<void> {
  await annotate(proxy, cluster, PROOF, new Date().toISOString());
  const path = logicalClusterPath(cluster);
  const { metadata } = await proxy.json<LogicalCluster>({ path });
  if (metadata.annotations?.[PROOF] === undefined) {
    throw failure("Unexpected", `the destination of ${cluster} does not show what was just written to it`);
  }
  await annotate(proxy, cluster, PROOF, null);
}

/** What was written late to the LogicalCluster itself: before the history that tells it is compacted. */
export async function carryMarks(session: Session, drainedAt: bigint): Promise<void> {
  const stored = await readLogicalCluster(session.from, session.cluster);
  if (stored) await carryMarksOf(session, stored, drainedAt);
}

async function carryMarksOf(
  session: Session,
  { entry, object }: StoredLogicalCluster,
  drainedAt: bigint,
): Promise<void> {
  // One that stands for the cluster is being deleted, which is no order to delete the cluster.
  if (entry.modRevision <= drainedAt || isStandIn(object)) return;
  await session.origin.check();
  await carryLateMarks(session, object, drainedAt);
}

async function removeLogicalCluster(session: Session, drainedAt: bigint): Promise<void> {
  const { from, origin, cluster } = session;
  for (;;) {
    const stored = await readLogicalCluster(from, cluster);
    if (!stored) return;
    await carryMarksOf(session, stored, drainedAt);
    const key = logicalClusterKey(from.store.prefix, cluster);
    const { succeeded } = await origin.transact(
      [when.modifiedAt(key, stored.entry.modRevision)],
      [remove(key)],
    );
    if (succeeded) return;
  }
}

interface RemoveHow {
  readonly includes?: (family: string) => boolean;
  /** Not in the order that the garbage collector needs. */
  readonly atOnce?: boolean;
}

/**
 * Deletes the cluster's keys at the origin, each as it was carried over. In the order for a garbage collector that looks on, with
 * the fence `migration` too: a restart of the origin's API server, at whatever moment, makes it look again.
 * @returns what was deleted, and what stays for a conflict
 */
export async function removeSettled(
  session: Session,
  drainedAt: bigint,
  late: LateWrites,
  work: Work,
  { includes = () => true, atOnce = false }: RemoveHow = {},
): Promise<Cleaned> {
  const { from, origin, destination, cluster } = session;
  const conflicts = new Map(late.conflicts.map((conflict) => [conflict.key, conflict]));
  let lateWrites = late.carried + conflicts.size;
  const ranges = cleanupOrder(await rangesOf(from.store, cluster)).filter(({ family }) => includes(family));
  const total = ranges.reduce((sum, { keys }) => sum + keys, 0);
  const deleted = await (atOnce ? removeKeys : removeWatchedKeys)(origin, {
    ranges,
    unchangedSince: drainedAt,
    signal: work.signal,
    // While kcp remembers that fence, its informers are told nothing of the cluster.
    isWatched: async () => !(await isSeenFenced(session, "migration", work.signal)),
    onLate: async (entry) => {
      const conflict = await settleLateWrite(from.store, destination, entry, {
        found: late,
        drainedAt,
        isShardsOwn,
      });
      if (!conflict) return true;
      if (!conflicts.has(conflict.key)) lateWrites += 1;
      conflicts.set(conflict.key, conflict);
      return false;
    },
    onProgress: (done) => work.tell({ done, total, unit: "keys" }),
  });
  return { deleted, lateWrites, conflicts: [...conflicts.values()], historyLost: late.historyLost };
}
