import { ApplicationFailure } from "@temporalio/common";
import { clusterRange, parseKey, prefixRange } from "../../etcd/keys.ts";
import type { LogicalClusterMigrationInput } from "../../inputs/logical-cluster-migration.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { clusterPath, logicalClusterPath } from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import { hasMigrationGate } from "../../kubernetes/kcp/probe.ts";
import type { FenceKind } from "../../kubernetes/kcp/probe.ts";
import type { KcpSite, Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { refuseEncrypted } from "./preflight-encryption.ts";

const TESTED_VERSION = /v0\.32\./;
/**
 * From these on a compaction keeps a deletion made at its own revision (etcd issue 19179); before, a tail could miss it. And a request for
 * progress is answered behind what it is about (etcd issue 15220; since 3.4.25 and 3.5.8), which `pastDeletions` rests on.
 */
const ETCD_MINIMUM = [
  [3, 4, 36],
  [3, 5, 18],
  [3, 6, 0],
] as const;

/**
 * Checks that a shard's API server and store answer, are healthy, and belong together.
 * @throws ApplicationFailure `Refused`: at the door a system that does not answer is a reason, not something to wait for.
 */
export async function checkShard(shard: Shard, field: "from" | "to"): Promise<void> {
  for (const replica of shard.replicas) await checkReady(replica, field);
  await checkStore(shard, field);
  await checkPair(shard, field);
}

async function checkReady(replica: ApiServer, field: string): Promise<void> {
  const answer = await replica
    .request({ path: "/readyz", timeoutMs: 10_000 })
    .catch((error: unknown) => error);
  const found = answer instanceof Error ? answer.message : undefined;
  const status = answer instanceof Error ? undefined : (answer as { status: number }).status;
  if (status === 200) return;
  throw failure("Refused", {
    message: `${field}: the API server of ${replica.name} at ${replica.url} is not ready`,
    found: found ?? `status ${status}`,
    advice:
      status === 401 || status === 403
        ? "its kubeconfig in rehome.yaml is not accepted: give one of an administrator of the shard"
        : "check the shard, and its address and certificate authority in rehome.yaml",
  });
}

async function checkStore({ name, store }: Shard, field: string): Promise<void> {
  try {
    const [versions, alarms] = await Promise.all([store.versions(), store.alarms()]);
    const old = versions.find((version) => !isRecent(version));
    if (old !== undefined) {
      throw failure("Refused", {
        message: `${field}: ${store.name} runs etcd ${old}`,
        expected: ETCD_MINIMUM.map((at) => at.join(".")).join(", "),
        advice: "upgrade etcd: older ones lose deletions at a compaction",
      });
    }
    if (alarms.length > 0) {
      throw failure("Refused", {
        message: `${field}: ${store.name} has alarms: ${alarms.join(", ")}`,
        advice: "clear them first (etcdctl alarm list)",
      });
    }
  } catch (error) {
    if (error instanceof ApplicationFailure) throw error;
    throw unreachableStore({ name, store }, field, error);
  }
}

export function unreachableStore(
  { name, store }: Pick<Shard, "name" | "store">,
  field: string,
  error: unknown,
): Error {
  return failure("Refused", {
    message: `${field}: the etcd of shard ${name} cannot be reached`,
    site: store.name,
    found: error instanceof Error ? error.message : String(error),
    advice: `check kcp.shards.${name}.etcd (endpoints and tls) in rehome.yaml`,
  });
}

function isRecent(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  const minimum = ETCD_MINIMUM.find((at) => at[0] === major && at[1] === minor);
  return minimum ? patch >= minimum[2] : major > 3 || (major === 3 && minor > 6);
}

/** A wrong store would swallow the copy: some LogicalCluster must be the same object in store and API server. */
async function checkPair(shard: Shard, field: string): Promise<void> {
  const { store, api, name } = shard;
  const range = prefixRange(`${store.prefix}/core.kcp.io/logicalclusters/customresources/`);
  const { entries } = await store.read(range, { limit: 1 });
  if (entries[0]) refuseEncrypted(shard, entries[0]);
  const cluster = entries[0] && parseKey(store.prefix, entries[0].key)?.cluster;
  const stored = entries[0] && (JSON.parse(entries[0].value.toString()) as LogicalCluster);
  const served = cluster && (await api.find<LogicalCluster>({ path: logicalClusterPath(cluster) }));
  if (stored && served && stored.metadata.uid === served.metadata.uid) return;
  if (!stored && (await isEmptyShard(shard))) return;
  throw failure("Refused", {
    message: `${field}: ${store.name} with prefix ${store.prefix} is not the store behind the API server of shard ${name}`,
    found: stored
      ? `LogicalCluster ${cluster} is not the one that ${api.url} serves`
      : "no LogicalCluster in it",
    advice: `correct kcp.shards.${name}.etcd.endpoints or .prefix in rehome.yaml`,
  });
}

/** A shard that hosts no cluster has no LogicalCluster; its own system objects must then be in the store. */
async function isEmptyShard({ store, api }: Shard): Promise<boolean> {
  const path = clusterPath("system:admin", "/api/v1/namespaces/kube-system");
  const namespace = await api.find<{ metadata: { resourceVersion: string } }>({ path });
  const { entry } = await store.get(`${store.prefix}/core/namespaces/system:admin/kube-system`);
  return namespace !== undefined && String(entry?.modRevision) === namespace.metadata.resourceVersion;
}

/** Which fence the origin can set; with "auto" kcp's own where its feature gate is on. */
export async function chooseFence(input: LogicalClusterMigrationInput, from: Shard): Promise<FenceKind> {
  if (input.fence === "inactive") return "inactive";
  // The mark of the migration fence lives in the one replica that leads; the others would go on serving.
  const possible = from.replicas.length === 1 && (await hasMigrationGate(from.api));
  if (possible) return "migration";
  if (input.fence === "auto") return "inactive";
  throw failure("Refused", {
    message: `fence: "migration" is not possible at ${from.name}`,
    found:
      from.replicas.length > 1
        ? "the shard has several replicas, and this fence reaches only one"
        : "its feature gate LogicalClusterMigration is off",
    advice: 'give "fence": "inactive", or turn the gate on',
  });
}

export async function versionWarnings(shards: readonly Shard[]): Promise<string[]> {
  const versions = await Promise.all(
    shards.map(async ({ name, api }) => {
      const { gitVersion } = await api.json<{ gitVersion: string }>({ path: "/version" });
      return { name, gitVersion };
    }),
  );
  return versions
    .filter(({ gitVersion }) => gitVersion.includes("kcp") && !TESTED_VERSION.test(gitVersion))
    .map(({ name, gitVersion }) => `shard ${name} runs ${gitVersion}: rehome has been tested with kcp v0.32`);
}

/** Every export that the cluster binds must be found by other shards too, or its APIs would be dead after the move. */
export async function checkApiBindings(site: KcpSite, from: Shard, cluster: string): Promise<void> {
  const range = clusterRange(from.store.prefix, "apis.kcp.io/apibindings/customresources", cluster);
  for await (const page of from.store.pages(range)) {
    for (const { value } of page)
      await checkApiBinding(site, JSON.parse(value.toString()) as Binding, cluster);
  }
}

interface Binding {
  metadata: { name: string };
  spec: { reference: { export?: { path?: string; name: string } } };
}

async function checkApiBinding(site: KcpSite, { metadata, spec }: Binding, cluster: string): Promise<void> {
  const reference = spec.reference.export;
  if (!reference) return;
  const path = clusterPath(
    reference.path ?? cluster,
    `/apis/apis.kcp.io/v1alpha2/apiexports/${reference.name}`,
  );
  const { status } = await site.frontProxy.request({ path });
  if (status === 200) return;
  throw failure("Refused", {
    message: `APIBinding ${metadata.name} of ${cluster} refers to APIExport ${reference.path ?? ""}|${reference.name}, which cannot be found`,
    found: `status ${status}`,
    advice: "remove the binding or restore the export; the destination could not serve this API",
  });
}
