import { logicalClusterKey } from "../../etcd/keys.ts";
import { carryLateWrites, settleLateWrite } from "../../etcd/late.ts";
import type { LateWrites } from "../../etcd/late.ts";
import { removeKeys } from "../../etcd/remove.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { remove, when } from "../../etcd/store.ts";
import type { Entry } from "../../etcd/store.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { writtenByShard } from "../../kubernetes/kcp/allowed.ts";
import { cleanupOrder, isLate } from "../../kubernetes/kcp/families.ts";
import {
  ANNOTATION,
  annotate,
  clusterPath,
  logicalClusterPath,
} from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import type { Fence } from "../../kubernetes/kcp/fence.ts";
import { isFenced } from "../../kubernetes/kcp/probe.ts";
import type { FenceKind } from "../../kubernetes/kcp/probe.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { healAfterInactive } from "./heal-inactive.ts";
import { isDeleted, isGone } from "./deleted.ts";
import { carryLateMarks } from "./late-marks.ts";
import { fenceOf, mustHoldLock, openSession, readLogicalCluster, releaseLocks } from "./session.ts";
import type { Session } from "./session.ts";
import type { Cleaned, LogicalClusterActivities } from "./types.ts";
import { beginWork } from "../work.ts";
import type { Work } from "../work.ts";

type Steps = Pick<LogicalClusterActivities, "awaitRouting" | "cleanOrigin" | "finalize">;

/** Written to and removed from the moved object, to prove that the destination takes writes. */
const PROOF = "rehome.dev/proof-of-write";
const ROUTING = { everyMs: 10, deadlineMs: 10 * 60_000 };
/** Polls without success after which the destination's object is touched: about two seconds. */
const TOUCH_EVERY = 100;
const SETTLE = { everyMs: 100, deadlineMs: 60_000 };

/** After a restart the origin's controllers write to kcp's own objects, whatever the fence refuses to others. */
const isShardsOwn = (before: Entry, after: Entry) =>
  writtenByShard(before.key, before.value, after.value) !== undefined;

/** What comes after the switch. Nothing here can be undone, and all of it can be done again. */
export function createFinishActivities(site: KcpSite): Steps {
  return {
    async awaitRouting(subject) {
      using work = beginWork("AwaitRouting");
      const session = await openSession(site, subject);
      const fence = fenceOf(site, subject, session.from, async () => await session.origin.check());
      await awaitRouted(
        site,
        session,
        work.signal,
        async () => await keepFenced(session, fence, subject.fence, work.signal),
      );
      const routedAt = Date.now();
      // At once: an API server compacts the history some minutes after it was made, and a gate may come next.
      if (!(await isDeleted(session, site.frontProxy))) {
        const drainedAt = BigInt(subject.position);
        const late = await carryLateWrites(session.origin, session.destination, {
          drainedAt,
          isShardsOwn,
          signal: work.signal,
        });
        await leaveOrigin(site, session, drainedAt, work.signal);
        // These at once: while two shards hold them, others can resolve neither.
        await removeSettled(session, drainedAt, late, work, isLate);
      }
      if (subject.fence === "inactive") await healAfterInactive(session, work.signal);
      return { routedAt, frontProxies: site.frontProxies.length };
    },

    async cleanOrigin(subject) {
      using work = beginWork("OriginCleanup");
      const session = await openSession(site, subject);
      if (await isDeleted(session, site.frontProxy)) return await removeRemains(session, work);
      const drainedAt = BigInt(subject.position);
      const late = await carryLateWrites(session.origin, session.destination, {
        drainedAt,
        isShardsOwn,
        signal: work.signal,
      });
      await leaveOrigin(site, session, drainedAt, work.signal);
      return await removeSettled(session, drainedAt, late, work);
    },

    async finalize(subject) {
      using work = beginWork("Finalize");
      const [from, to] = await Promise.all([site.shard(subject.from), site.shard(subject.to)]);
      const gone = await isGone(from, to, subject.cluster);
      await fenceOf(site, subject, from, async () => await mustHoldLock(from, subject)).dismantle(gone);
      if (gone) {
        await releaseLocks(site, subject);
        return { leftInPlace: leftInPlace(subject.from, subject.fence, site.fenceWorkspace) };
      }
      // Done already, but for moves that left the origin before that did it; by its path it is found through its owner.
      await nameShardInOwner(site.frontProxy, subject.cluster, subject.to);
      for (const proxy of site.frontProxies) {
        for (const name of [subject.cluster, subject.path]) {
          await pollUntil(`${proxy.name} serves ${name}`, async () => await serves(proxy, name), {
            ...SETTLE,
            signal: work.signal,
          });
        }
      }
      await releaseLocks(site, subject);
      return { leftInPlace: leftInPlace(subject.from, subject.fence, site.fenceWorkspace) };
    },
  };
}

/** Empties the origin of a cluster that was deleted at the destination: nothing is carried over any more. */
async function removeRemains(session: Session, work: Work): Promise<Cleaned> {
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

async function serves(server: ApiServer, cluster: string): Promise<true | string> {
  const { status, body } = await server.request({ path: logicalClusterPath(cluster), timeoutMs: 5_000 });
  return status === 200 || `${status} ${body.slice(0, 200).trim()}`;
}

/** Whether the object that a front-proxy shows is the destination's: both shards have one, with revisions of their own. */
async function servesDestination(proxy: ApiServer, { to, cluster }: Session): Promise<true | string> {
  const { status, body } = await proxy.request({ path: logicalClusterPath(cluster), timeoutMs: 5_000 });
  if (status !== 200) return `${status} ${body.slice(0, 200).trim()}`;
  const stored = await readLogicalCluster(to, cluster);
  const { resourceVersion } = (JSON.parse(body) as LogicalCluster).metadata;
  return (
    resourceVersion === String(stored?.entry.modRevision) || `resourceVersion ${String(resourceVersion)}`
  );
}

/** @param meanwhile is called each time that a front-proxy has been asked in vain */
async function awaitRouted(
  site: KcpSite,
  session: Session,
  signal: AbortSignal,
  meanwhile: () => Promise<void> = async () => undefined,
): Promise<void> {
  await Promise.all(
    site.frontProxies.map(async (proxy) => {
      let asked = 0;
      const served = async () => {
        const seen = await servesDestination(proxy, session);
        if (seen === true || (await isDeleted(session, site.frontProxy))) return true;
        await meanwhile();
        // A front-proxy that has listed the origin anew waits for another event of the destination's object.
        if (++asked % TOUCH_EVERY === 0) await touch(session);
        return seen;
      };
      const what = `${proxy.name} serves ${session.cluster} from ${session.to.name}`;
      await pollUntil(what, served, { ...ROUTING, signal });
    }),
  );
}

/**
 * Takes the cluster's object away at the origin, once the destination is proven to serve. It goes before all else, and
 * before a gate: while it stands, a front-proxy that lists anew, or whose informers resync, may take the origin for the
 * place of the cluster again (kcp v0.32.3, pkg/index/index.go).
 */
async function leaveOrigin(
  site: KcpSite,
  session: Session,
  drainedAt: bigint,
  signal: AbortSignal,
): Promise<void> {
  await awaitRouted(site, session, signal);
  await proveServing(site.frontProxy, session.cluster);
  await nameShardInOwner(site.frontProxy, session.cluster, session.to.name);
  await removeLogicalCluster(session, drainedAt);
  await touch(session);
  await awaitRouted(site, session, signal);
}

/** A restart of the origin forgets kcp's fence; while front-proxies still route there it is set again. */
async function keepFenced(
  { from, cluster, origin }: Session,
  fence: Fence,
  kind: FenceKind,
  signal: AbortSignal,
): Promise<void> {
  if (await isFenced(from.replicas, cluster, kind)) return;
  await fence.prepare();
  // Not by an attempt that slept while the move went on: the cluster may be at home here again.
  await origin.check();
  await fence.set({ atOnce: false, signal });
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

async function removeLogicalCluster(session: Session, drainedAt: bigint): Promise<void> {
  const { from, origin, cluster } = session;
  for (;;) {
    const stored = await readLogicalCluster(from, cluster);
    if (!stored) return;
    if (stored.entry.modRevision > drainedAt) await carryLateMarks(session, stored.object, drainedAt);
    const key = logicalClusterKey(from.store.prefix, cluster);
    const { succeeded } = await origin.transact(
      [when.modifiedAt(key, stored.entry.modRevision)],
      [remove(key)],
    );
    if (succeeded) return;
  }
}

/** An update of the object at the destination, so that every front-proxy points there whatever it saw before. */
async function touch({ to, cluster }: Session): Promise<void> {
  await annotate(to.api, cluster, PROOF, new Date().toISOString());
  await annotate(to.api, cluster, PROOF, null);
}

async function removeSettled(
  session: Session,
  drainedAt: bigint,
  late: LateWrites,
  work: Work,
  includes: (family: string) => boolean = () => true,
): Promise<Cleaned> {
  const { from, origin, destination, cluster } = session;
  const conflicts = new Map(late.conflicts.map((conflict) => [conflict.key, conflict]));
  let lateWrites = late.carried + conflicts.size;
  const ranges = cleanupOrder(await rangesOf(from.store, cluster)).filter(({ family }) => includes(family));
  const total = ranges.reduce((sum, { keys }) => sum + keys, 0);
  const deleted = await removeKeys(origin, {
    ranges,
    unchangedSince: drainedAt,
    signal: work.signal,
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

/**
 * The owner, the Workspace object, must name the destination's shard: its deletion asks that shard whether the cluster
 * is gone, and a wrong name would leak the cluster (kcp v0.32.3, workspace_reconcile_deletion.go). The destination's
 * controller writes it too, but not where the switch had to name the shard in the LogicalCluster object already.
 */
async function nameShardInOwner(proxy: ApiServer, cluster: string, shard: string): Promise<void> {
  const { spec } = await proxy.json<LogicalCluster>({ path: logicalClusterPath(cluster) });
  const owner = spec?.owner;
  if (owner?.resource !== "workspaces") return;
  const path = clusterPath(owner.cluster, `/apis/tenancy.kcp.io/v1alpha1/workspaces/${owner.name}`);
  const workspace = await proxy.findServed<LogicalCluster>({ path });
  if (!workspace || workspace.metadata.annotations?.[ANNOTATION.shard] === shard) return;
  await proxy.json({
    method: "PATCH",
    path,
    body: { metadata: { annotations: { [ANNOTATION.shard]: shard } } },
  });
}

function leftInPlace(from: string, fence: string, workspace: string): string[] {
  return [
    `CRDs of bound APIs in system:bound-crds at ${from}: shared with other clusters; kcp collects those nobody uses`,
    ...(fence === "migration"
      ? [`APIBinding migration.kcp.io in ${workspace}: serves the fence of later moves`]
      : []),
  ];
}
