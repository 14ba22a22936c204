import type { ApiServer } from "../api-server.ts";
import { clusterPath, logicalClusterPath } from "./logical-cluster.ts";

export type FenceKind = "migration" | "inactive";

/**
 * Whether every replica of a shard refuses the cluster's requests because of a fence of this kind. Asked with
 * credentials that nothing but a fence refuses (system:masters), directly at the replicas.
 *
 * `migration`: the LogicalCluster path is the one that a cancelled context does not turn into a 504, so the answer is
 * the filter's own (kcp v0.32.3, pkg/server/filters/migratinglogicalcluster.go): 503, plain text.
 * `inactive`: the filter of inactivelogicalcluster.go, 403; it exempts the LogicalCluster path.
 * @throws the socket's error when a replica cannot be asked
 */
export async function isFenced(
  replicas: readonly ApiServer[],
  cluster: string,
  kind: FenceKind,
  signal?: AbortSignal,
): Promise<boolean> {
  const path =
    kind === "migration" ? logicalClusterPath(cluster) : clusterPath(cluster, "/api/v1/namespaces/default");
  const answers = await Promise.all(
    replicas.map(async (replica) => await replica.request({ path, timeoutMs: 2_000, signal })),
  );
  return answers.every(({ status, body }) =>
    kind === "migration"
      ? status === 503 && body.startsWith("logical cluster is being migrated")
      : status === 403 && body.includes("logical cluster is marked inactive"),
  );
}

/**
 * Whether the shard's request context of the cluster is cancelled for good, as the `migration` fence leaves it: then
 * a list answers 504 within milliseconds (kcp v0.32.3, pkg/contextmanager), or has its connection reset when the answer
 * had begun by then (apiserver, pkg/server/filters/timeout.go). Works before the cluster is there.
 */
export async function hasDeadContext(server: ApiServer, cluster: string): Promise<boolean> {
  // Two ready channels race in the server, so one good answer does not prove a live context.
  for (let i = 0; i < 4; i++) {
    const path = clusterPath(cluster, "/api/v1/namespaces?limit=1");
    const isDead = await server
      .request({ path, timeoutMs: 5_000 })
      .then(({ status }) => status === 504, isReset);
    if (isDead) return true;
  }
  return false;
}

/** The fence `migration` lets the first pass (migratinglogicalcluster.go), and the second may do everything. */
const THROUGH_FENCE = ["system:kcp:external-logical-cluster-admin", "system:masters"];

/** Whether every replica of a shard answers requests for the cluster, those that its fence `migration` lets through. */
export async function answersThroughFence(replicas: readonly ApiServer[], cluster: string): Promise<boolean> {
  const path = clusterPath(cluster, "/api/v1/namespaces?limit=1");
  for (const replica of replicas) {
    // As above: one good answer proves nothing.
    for (let i = 0; i < 4; i++) {
      const isServed = await replica.request({ path, timeoutMs: 5_000, asGroups: THROUGH_FENCE }).then(
        ({ status }) => status === 200,
        (error: unknown) => !isReset(error),
      );
      if (!isServed) return false;
    }
  }
  return true;
}

/** @throws whatever else the error is. */
function isReset(error: unknown): true {
  if ((error as NodeJS.ErrnoException).code === "ECONNRESET") return true;
  throw error;
}

/**
 * Whether the shard runs with kcp's feature gate LogicalClusterMigration. No endpoint tells gates, but with this one a
 * handler answers POSTs to the dump path itself, and refuses ours by the name of its resource (kcp v0.32.3,
 * pkg/server/filters/migrationdump.go); without it no such API is found. Nothing is written either way.
 */
export async function hasMigrationGate(server: ApiServer): Promise<boolean> {
  const path = clusterPath("system:admin", "/apis/migration.kcp.io/v1alpha1/logicalclusterdumps");
  const { body } = await server.request({ method: "POST", path, body: {} });
  return body.includes("logicalclusterdumps.migration.kcp.io");
}

/**
 * When the youngest of a shard's replicas was started, ms since the epoch by the clock of its machine.
 * @returns undefined where one does not tell
 */
export async function startedAt(
  replicas: readonly ApiServer[],
  signal: AbortSignal,
): Promise<number | undefined> {
  const starts = await Promise.all(
    replicas.map(async (replica) => {
      const { body } = await replica.request({ path: "/metrics", signal });
      return Number(/^process_start_time_seconds (?<seconds>\S+)$/m.exec(body)?.groups?.["seconds"]) * 1000;
    }),
  );
  const youngest = Math.max(...starts);
  return Number.isNaN(youngest) ? undefined : youngest;
}
