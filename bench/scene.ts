import { rm } from "node:fs/promises";
import type { Client } from "@temporalio/client";
import type { MoveReport } from "../activities/logical-cluster/types.ts";
import { startMove } from "../cli/commands/start.ts";
import { operator, targetFrom, withClient } from "../cli/connection.ts";
import { inputFrom } from "../cli/input.ts";
import { Store } from "../etcd/store.ts";
import { ApiError, ApiServer } from "../kubernetes/api-server.ts";
import { clusterPath } from "../kubernetes/kcp/logical-cluster.ts";
import { pollUntil } from "../kubernetes/wait.ts";
import { startWorker } from "../testbed/demo/worker.ts";
import { startLogicalClusterTestbed } from "../testbed/logical-cluster.ts";
import type { LogicalClusterTestbed } from "../testbed/logical-cluster.ts";
import { createWorkload } from "../testbed/workload/workload.ts";
import type { Workspace } from "../testbed/workspaces.ts";
import { putConfigMaps } from "../test/e2e/harness/bulk.ts";

/** kcp with two shards, Temporal, and a worker in a process of its own. */
export interface Scene {
  readonly testbed: LogicalClusterTestbed;
  readonly client: Client;
  readonly frontProxy: ApiServer;
}

export const ORIGIN = "root";
export const DESTINATION = "shard-1";

/** Made through the API, of all kinds that clients use; the rest is put into etcd, where it takes no minutes. */
const MADE_BY_API = 50;
const PAYLOAD = { payload: "x".repeat(600) };
const MIGRATIONS = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations";
const BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings";
const HALF_AN_HOUR_MS = 30 * 60_000;

/** Brings all servers up, and down again whatever happens. */
export async function withScene<T>(dir: string, use: (scene: Scene) => Promise<T>): Promise<T> {
  const testbed = await startLogicalClusterTestbed({ dir });
  try {
    const worker = await startWorker(testbed.configFile, dir);
    const frontProxy = new ApiServer("front-proxy", {
      kubeconfig: testbed.kcp.frontProxy.kubeconfig,
      context: "base",
    });
    const target = await targetFrom({ config: testbed.configFile });
    const found = await withClient(target, async (client) => await use({ testbed, client, frontProxy }));
    await worker.stop();
    return found;
  } finally {
    await testbed.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

/** A workspace on a shard with so many objects, once the shard's API server has read them all. */
export async function makeWorkspace(
  { testbed }: Scene,
  { name, objects, shard = ORIGIN }: { name: string; objects: number; shard?: string },
): Promise<Workspace> {
  const { kubeconfig } = testbed.kcp.frontProxy;
  const { workspace } = await createWorkload({
    kubeconfig,
    name,
    shard,
    objects: Math.min(objects, MADE_BY_API),
  });
  const { etcd, etcdPrefix, kubeconfig: direct } = testbed.kcp.shard(shard);
  const store = new Store({
    name: `etcd of ${shard}`,
    endpoints: etcd.endpoints,
    prefix: etcdPrefix,
    tls: etcd.tls,
  });
  try {
    await putConfigMaps(store, workspace.cluster, Math.max(0, objects - MADE_BY_API), PAYLOAD);
    await awaitRead(
      new ApiServer(`shard ${shard}`, { kubeconfig: direct, context: "base" }),
      await store.head(),
    );
  } finally {
    store.close();
  }
  return workspace;
}

/** Until the API server's cache of ConfigMaps is as new as the store: only then is the workspace as in real life. */
async function awaitRead(server: ApiServer, revision: bigint): Promise<void> {
  const query = `limit=1&labelSelector=none%3Dx&resourceVersion=${revision}&resourceVersionMatch=NotOlderThan`;
  const path = clusterPath("*", `/api/v1/configmaps?${query}`);
  const isRead = async () => (await server.request({ path })).status === 200 || "not read yet";
  await pollUntil(`${server.name} has read what was put`, isRead, {
    everyMs: 500,
    deadlineMs: HALF_AN_HOUR_MS,
  });
}

export interface Moved {
  readonly workflowId: string;
  readonly report: MoveReport;
}

/** @throws Error when the move fails or was not verified */
export async function moveWithRehome(scene: Scene, workspace: Workspace): Promise<Moved> {
  const { client, testbed } = scene;
  const hints = { program: "rehome", connection: ["--config", testbed.configFile], by: operator() };
  const checked = inputFrom("logicalClusterMigration", { logicalCluster: workspace.path, to: DESTINATION });
  const handle = await startMove(client, { checked, hints });
  const report = (await handle.result()) as MoveReport;
  if (!report.verified) throw new Error(`the move of ${workspace.path} was not verified`);
  return { workflowId: handle.workflowId, report };
}

/** kcp's own migration, as its documentation has it: one object, and waiting for its phase. */
export async function moveWithKcp({ frontProxy }: Scene, { cluster }: Workspace): Promise<void> {
  await bindMigrationApi(frontProxy);
  const name = `bench-${cluster}`;
  const body = {
    apiVersion: "migration.kcp.io/v1alpha1",
    kind: "LogicalClusterMigration",
    metadata: { name },
    spec: { logicalCluster: cluster, destinationShard: DESTINATION },
  };
  await frontProxy.json({ method: "POST", path: clusterPath("root", MIGRATIONS), body });
  const path = clusterPath("root", `${MIGRATIONS}/${name}`);
  await pollUntil(`kcp has moved ${cluster}`, async () => await isInPhase(frontProxy, path, "Completed"), {
    everyMs: 200,
    deadlineMs: HALF_AN_HOUR_MS,
  });
}

/** Binds the export of the API in workspace `root`, and waits until it is served. */
export async function bindMigrationApi(frontProxy: ApiServer): Promise<void> {
  const body = {
    apiVersion: "apis.kcp.io/v1alpha2",
    kind: "APIBinding",
    metadata: { name: "migration.kcp.io" },
    spec: { reference: { export: { path: "root", name: "migration.kcp.io" } } },
  };
  try {
    await frontProxy.json({ method: "POST", path: clusterPath("root", BINDINGS), body });
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
  }
  const path = clusterPath("root", MIGRATIONS);
  const isServed = async () => (await frontProxy.request({ path })).status === 200 || "not served yet";
  await pollUntil("kcp serves LogicalClusterMigration", isServed, { everyMs: 50, deadlineMs: 60_000 });
}

async function isInPhase(server: ApiServer, path: string, phase: string): Promise<true | string> {
  const { status } = await server.json<{ status?: { phase?: string } }>({ path });
  return status?.phase === phase || `phase ${status?.phase ?? "none"}`;
}
