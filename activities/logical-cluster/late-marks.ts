import { isDeepStrictEqual } from "node:util";
import { CompactedError } from "../../etcd/errors.ts";
import { ApiError } from "../../kubernetes/api-server.ts";
import { merge, removeObject } from "../../kubernetes/objects.ts";
import { ANNOTATION, PHASE_LABEL, logicalClusterPath } from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";

type Marks = Readonly<Record<string, string>>;

/** What each shard writes for itself. */
const SHARDS_OWN = new Set<string>([ANNOTATION.shard, ANNOTATION.migrating, PHASE_LABEL]);

/**
 * Carries over what was written late to the LogicalCluster object itself: kcp's `inactive` fence lets all requests for it
 * pass, the other one those that came before (kcp v0.32.3, pkg/server/filters). Deletion, labels, annotations and spec,
 * each where the destination still has what the origin had at the end of the drain.
 * @param now the origin's object.
 */
export async function carryLateMarks(
  { from, to, cluster }: Session,
  now: LogicalCluster,
  drainedAt: bigint,
): Promise<void> {
  const path = logicalClusterPath(cluster);
  if (now.metadata.deletionTimestamp !== undefined) {
    return await removeObject(to.api, path);
  }
  const before = await readLogicalCluster(from, cluster, drainedAt).catch((error: unknown) => {
    // Reported as lost history with all other late writes.
    if (error instanceof CompactedError) return undefined;
    throw error;
  });
  for (;;) {
    const there = await readLogicalCluster(to, cluster);
    const change = before && there && changeOf(before.object, now, there.object);
    if (!change) return;
    const resourceVersion = String(there.entry.modRevision);
    const body = { ...change, metadata: { ...change.metadata, resourceVersion } };
    try {
      await merge(to.api, path, body);
      return;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error;
    }
  }
}

/** A merge patch for the destination's object; undefined when there is nothing to carry over. */
function changeOf(before: LogicalCluster, now: LogicalCluster, there: LogicalCluster) {
  const [labels, annotations] = (["labels", "annotations"] as const).map((field) =>
    lateMarks(before.metadata[field], now.metadata[field], there.metadata[field]),
  );
  const isSpecLate = !isDeepStrictEqual(before.spec, now.spec) && isDeepStrictEqual(before.spec, there.spec);
  if (labels === undefined && annotations === undefined && !isSpecLate) return undefined;
  return { metadata: { labels, annotations }, ...(isSpecLate && { spec: now.spec }) };
}

function lateMarks(
  before: Marks = {},
  now: Marks = {},
  there: Marks = {},
): Record<string, string | null> | undefined {
  const names = Object.keys({ ...before, ...now }).filter(
    (name) => !SHARDS_OWN.has(name) && now[name] !== before[name] && there[name] === before[name],
  );
  if (names.length === 0) return undefined;
  return Object.fromEntries(names.map((name) => [name, now[name] ?? null]));
}
