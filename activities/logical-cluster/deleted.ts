import type { ApiServer } from "../../kubernetes/api-server.ts";
import { ANNOTATION, clusterPath, isStandIn, isSuspended } from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import type { Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";

/** A workspace may be deleted at any moment of its move. */

/** @throws ApplicationFailure `Refused` when the cluster is gone from its origin, or going. */
export async function refuseDeleted(from: Shard, cluster: string): Promise<LogicalCluster> {
  const stored = await readLogicalCluster(from, cluster);
  if (stored && stored.object.metadata.deletionTimestamp === undefined) return stored.object;
  throw failure("Refused", `logical cluster ${cluster} was deleted while it moved`);
}

/**
 * Somebody has suspended the workspace while it moved; a move would make it serve again. Not to be asked while the
 * `inactive` fence, which is the same mark, is on.
 * @throws ApplicationFailure `Refused`
 */
export function refuseSuspended(object: LogicalCluster, cluster: string): void {
  if (!isSuspended(object)) return;
  throw failure("Refused", {
    message: `logical cluster ${cluster} was marked inactive while it moved`,
    advice: `take the annotation ${ANNOTATION.inactive} off, then start again`,
  });
}

/** Whether neither shard has the cluster: it was deleted while it moved. */
export async function isGone(from: Shard, to: Shard, cluster: string): Promise<boolean> {
  const stored = await Promise.all([from, to].map(async (shard) => await readLogicalCluster(shard, cluster)));
  return stored.every((found) => found === undefined);
}

/**
 * Whether the cluster was deleted after the switch, as its owner ordered: only then is there nothing that must serve
 * before the origin is emptied.
 */
export async function isDeleted(
  { from, to, cluster }: Pick<Session, "from" | "to" | "cluster">,
  proxy: ApiServer,
): Promise<boolean> {
  if (await readLogicalCluster(to, cluster)) return false;
  const left = await readLogicalCluster(from, cluster);
  if (left === undefined || isStandIn(left.object)) return true;
  const owner = left.object.spec?.owner;
  if (owner?.resource !== "workspaces") return false;
  const path = clusterPath(owner.cluster, `/apis/tenancy.kcp.io/v1alpha1/workspaces/${owner.name}`);
  const workspace = await proxy.findServed<LogicalCluster>({ path });
  return workspace === undefined || workspace.metadata.deletionTimestamp !== undefined;
}
