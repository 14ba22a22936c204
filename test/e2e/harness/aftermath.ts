import { expect } from "vitest";
import { ANNOTATION, logicalClusterPath } from "../../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import { other } from "./bed.ts";
import type { Bed, ShardName } from "./bed.ts";
import { keysOf, ownKeysLeft } from "./keys.ts";
import { expectServing } from "./tenant.ts";
import type { Tenant } from "./tenant.ts";

/**
 * Nothing of a move is left: the cluster is on one shard only and in full use there, and neither store, nor kcp's own
 * objects, nor the LogicalCluster carry a trace of rehome.
 */
export async function expectSettledOn(bed: Bed, tenant: Tenant, shard: ShardName): Promise<void> {
  expect(await keysOf(bed.store(other(shard)), tenant.cluster)).toEqual([]);
  expect(await ownKeysLeft(bed.store("root"), tenant.cluster)).toEqual([]);
  expect(await ownKeysLeft(bed.store("shard-1"), tenant.cluster)).toEqual([]);
  expect(await migrationsOf(bed, tenant.cluster)).toEqual([]);
  const { metadata } = await bed.frontProxy.json<LogicalCluster>({
    path: logicalClusterPath(tenant.cluster),
  });
  const traces = Object.keys(metadata.annotations ?? {}).filter(
    (name) =>
      name.includes("rehome") ||
      name === ANNOTATION.migrating ||
      name === ANNOTATION.inactive ||
      name === ANNOTATION.inactiveLegacy,
  );
  expect(traces).toEqual([]);
  await expectServing(tenant);
  expect(await keysOf(bed.store(other(shard)), tenant.cluster)).toEqual([]);
}

/** Names of kcp's LogicalClusterMigration objects for a cluster. */
export async function migrationsOf(bed: Bed, cluster: string): Promise<string[]> {
  const path = "/clusters/root/apis/migration.kcp.io/v1alpha1/logicalclustermigrations";
  const list = await bed.frontProxy.find<{
    items: { metadata: { name: string }; spec: { logicalCluster: string } }[];
  }>({ path });
  const ours = (list?.items ?? []).filter(
    ({ metadata, spec }) => spec.logicalCluster === cluster || metadata.name.includes(cluster),
  );
  return ours.map(({ metadata }) => metadata.name);
}
