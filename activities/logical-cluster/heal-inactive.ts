import { logicalClusterKey } from "../../etcd/keys.ts";
import { put, remove } from "../../etcd/store.ts";
import { withHealing } from "../../kubernetes/kcp/logical-cluster.ts";
import { hasDeadContext } from "../../kubernetes/kcp/probe.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";

/**
 * The `inactive` fence cancels the wildcard context of the whole shard, so that every list and watch over all clusters
 * fails there until some LogicalCluster becomes active again. A helper object of our own does that; the moved one
 * cannot, since any event of it at the origin would point the front-proxies back there.
 */
export async function healAfterInactive(session: Session, signal: AbortSignal): Promise<void> {
  const { from, to, origin, cluster } = session;
  const helper = `rehome-heal-${cluster}`.slice(0, 63);
  const key = logicalClusterKey(from.store.prefix, helper);
  if (!(await hasDeadContext(from.api, "*"))) {
    // An earlier attempt may have ended between its two writes.
    await origin.transact([], [remove(key)]);
    return;
  }
  // A cluster that was deleted after the switch is still at the origin.
  const model = (await readLogicalCluster(to, cluster)) ?? (await readLogicalCluster(from, cluster));
  if (!model) return;
  const { spec: _spec, ...object } = withHealing(model.object, from.name);
  const {
    annotations: _annotations,
    finalizers: _finalizers,
    deletionTimestamp: _deleted,
    ...metadata
  } = object.metadata;
  const healing = { ...object, spec: {}, metadata: { ...metadata, uid: crypto.randomUUID() } };
  await origin.transact([], [put(key, JSON.stringify(healing))]);
  await pollUntil(
    `${from.name} serves wildcard requests again`,
    async () => !(await hasDeadContext(from.api, "*")) || "its wildcard context is still cancelled",
    { everyMs: 50, deadlineMs: 20_000, signal },
  );
  await origin.transact([], [remove(key)]);
}
