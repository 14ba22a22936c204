import { logicalClusterKey } from "../../etcd/keys.ts";
import { carryLateWrite, removeKeys } from "../../etcd/remove.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { remove, when } from "../../etcd/store.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { cleanupOrder } from "../../kubernetes/kcp/families.ts";
import {
  ANNOTATION,
  annotate,
  clusterPath,
  logicalClusterPath,
} from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import { pollUntil } from "../../kubernetes/kcp/probe.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { healAfterInactive } from "./heal-inactive.ts";
import { fenceOf, openSession, readLogicalCluster, releaseLocks } from "./session.ts";
import type { Session } from "./session.ts";
import type { Conflict, LogicalClusterActivities } from "./types.ts";
import { beginWork } from "./work.ts";

type Steps = Pick<LogicalClusterActivities, "awaitRouting" | "cleanOrigin" | "finalize">;

/** Written to and removed from the moved object, to prove that the destination takes writes. */
const PROOF = "rehome.dev/proof-of-write";
const ROUTING = { everyMs: 10, deadlineMs: 10 * 60_000 };
const SETTLE = { everyMs: 100, deadlineMs: 60_000 };

/** What comes after the switch. Nothing here can be undone, and all of it can be done again. */
export function createFinishActivities(site: KcpSite): Steps {
  return {
    async awaitRouting(subject) {
      using work = beginWork("AwaitRouting");
      const session = await openSession(site, subject);
      await Promise.all(
        site.frontProxies.map(async (proxy) => {
          await pollUntil(
            `${proxy.name} serves ${subject.cluster} from ${subject.to}`,
            // The origin is fenced, so whoever answers is the destination.
            async () => await serves(proxy, subject.cluster),
            { ...ROUTING, signal: work.signal },
          );
        }),
      );
      const routedAt = Date.now();
      if (subject.fence === "inactive") await healAfterInactive(session, work.signal);
      return { routedAt, frontProxies: site.frontProxies.length };
    },

    async cleanOrigin(subject) {
      using work = beginWork("OriginCleanup");
      const session = await openSession(site, subject);
      await proveServing(site.frontProxy, subject.cluster);
      const drainedAt = BigInt(subject.position);
      await removeLogicalCluster(session, drainedAt);
      await touch(site, session);
      return await removeTheRest(session, drainedAt, work);
    },

    async finalize(subject) {
      using work = beginWork("Finalize");
      const from = await site.shard(subject.from);
      await fenceOf(site, subject, from, subject.fence).dismantle();
      for (const proxy of site.frontProxies) {
        for (const name of [subject.cluster, subject.path]) {
          await pollUntil(`${proxy.name} serves ${name}`, async () => await serves(proxy, name), {
            ...SETTLE,
            signal: work.signal,
          });
        }
      }
      await nameShardInOwner(site.frontProxy, subject.cluster, subject.to);
      await releaseLocks(site, subject);
      return { leftInPlace: leftInPlace(subject.from, subject.fence, site.fenceWorkspace) };
    },
  };
}

async function serves(server: ApiServer, cluster: string): Promise<true | string> {
  const { status, body } = await server.request({ path: logicalClusterPath(cluster), timeoutMs: 5_000 });
  return status === 200 || `${status} ${body.slice(0, 200).trim()}`;
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

/**
 * The origin's LogicalCluster object goes before all else: while it stands, a front-proxy that lists anew may take the
 * origin for the place of the cluster again (kcp v0.32.3, pkg/index/index.go).
 */
async function removeLogicalCluster(session: Session, drainedAt: bigint): Promise<void> {
  const { from, to, origin, cluster } = session;
  for (;;) {
    const stored = await readLogicalCluster(from, cluster);
    if (!stored) return;
    // The fence lets one writer through: the workspace controller that deletes the cluster. Its order is carried over.
    if (stored.entry.modRevision > drainedAt && stored.object.metadata.deletionTimestamp !== undefined) {
      await to.api.request({ method: "DELETE", path: logicalClusterPath(cluster) });
    }
    const key = logicalClusterKey(from.store.prefix, cluster);
    const { succeeded } = await origin.transact(
      [when.modifiedAt(key, stored.entry.modRevision)],
      [remove(key)],
    );
    if (succeeded) return;
  }
}

/** An update of the object at the destination, so that every front-proxy points there whatever it saw before. */
async function touch(site: KcpSite, { to, cluster }: Session): Promise<void> {
  await annotate(to.api, cluster, PROOF, new Date().toISOString());
  await annotate(to.api, cluster, PROOF, null);
  for (const proxy of site.frontProxies) {
    await pollUntil(`${proxy.name} serves ${cluster}`, async () => await serves(proxy, cluster), SETTLE);
  }
}

async function removeTheRest(session: Session, drainedAt: bigint, work: ReturnType<typeof beginWork>) {
  const { from, origin, destination, cluster } = session;
  const conflicts: Conflict[] = [];
  let lateWrites = 0;
  const ranges = cleanupOrder(await rangesOf(from.store, cluster));
  const total = ranges.reduce((sum, { keys }) => sum + keys, 0);
  const deleted = await removeKeys(origin, {
    ranges,
    unchangedSince: drainedAt,
    signal: work.signal,
    onLate: async (entry) => {
      lateWrites += 1;
      const conflict = await carryLateWrite(origin, destination, entry, drainedAt);
      if (conflict) conflicts.push(conflict);
    },
    onProgress: (done) => work.tell({ done, total, unit: "keys" }),
  });
  return { deleted, lateWrites, conflicts };
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
  const workspace = await proxy.find<LogicalCluster>({ path });
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
