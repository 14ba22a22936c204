import { expect } from "vitest";
import { ANNOTATION, logicalClusterPath } from "../../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import { SHARDS, other } from "./bed.ts";
import type { Bed, ShardName } from "./bed.ts";
import { keysOf, ownKeysLeft } from "./keys.ts";
import { expectServing } from "./tenant.ts";
import type { Tenant } from "./tenant.ts";

/** Nothing of a move is left: the cluster is on one shard only and in full use there. */
export async function expectSettledOn(bed: Bed, tenant: Tenant, shard: ShardName): Promise<void> {
  expect(await tracesOf(bed, tenant.cluster, shard)).toEqual([]);
  await expectServing(tenant);
  expect(await keysOf(bed.store(other(shard)), tenant.cluster)).toEqual([]);
}

/** A cluster that was deleted is on no shard, and nothing of a move of it is left. Its keys may need a moment. */
export async function expectNoTrace(bed: Bed, cluster: string): Promise<void> {
  for (const shard of SHARDS) {
    await expect.poll(async () => await keysOf(bed.store(shard), cluster)).toEqual([]);
    expect(await ownKeysLeft(bed.store(shard), cluster)).toEqual([]);
  }
  expect(await migrationsOf(bed, cluster)).toEqual([]);
}

/** What of a bed tells whether a move has left something behind. */
export type Traceable = Pick<Bed, "store" | "frontProxy">;

/**
 * What a move has left behind: keys of the cluster at the other shard, rehome's own keys, kcp's objects for the fence,
 * and marks on the LogicalCluster. Empty when all is as it should be.
 */
export async function tracesOf(bed: Traceable, cluster: string, shard: ShardName): Promise<string[]> {
  const { metadata } = await bed.frontProxy.json<LogicalCluster>({ path: logicalClusterPath(cluster) });
  const marks = Object.keys(metadata.annotations ?? {}).filter(
    (name) =>
      name.includes("rehome") ||
      name === ANNOTATION.migrating ||
      name === ANNOTATION.inactive ||
      name === ANNOTATION.inactiveLegacy,
  );
  return [
    ...(await keysOf(bed.store(other(shard)), cluster)),
    ...(await ownKeysLeft(bed.store("root"), cluster)),
    ...(await ownKeysLeft(bed.store("shard-1"), cluster)),
    ...(await migrationsOf(bed, cluster)),
    ...marks,
  ];
}

/** Names of kcp's LogicalClusterMigration objects for a cluster. */
export async function migrationsOf(bed: Traceable, cluster: string): Promise<string[]> {
  const path = "/clusters/root/apis/migration.kcp.io/v1alpha1/logicalclustermigrations";
  const list = await bed.frontProxy.find<{
    items: { metadata: { name: string }; spec: { logicalCluster: string } }[];
  }>({ path });
  const ours = (list?.items ?? []).filter(
    ({ metadata, spec }) => spec.logicalCluster === cluster || metadata.name.includes(cluster),
  );
  return ours.map(({ metadata }) => metadata.name);
}
