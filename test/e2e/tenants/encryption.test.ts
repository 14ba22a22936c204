import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApplicationFailure } from "@temporalio/common";
import { MockActivityEnvironment } from "@temporalio/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createActivities } from "../../../activities/index.ts";
import type { LogicalClusterActivities } from "../../../activities/logical-cluster/types.ts";
import { ApiServer } from "../../../kubernetes/api-server.ts";
import { loadConfig } from "../../../sites/config.ts";
import { Sites } from "../../../sites/sites.ts";
import { startLogicalClusterTestbed } from "../../../testbed/logical-cluster.ts";
import type { LogicalClusterTestbed } from "../../../testbed/logical-cluster.ts";
import { createWorkspace } from "../../../testbed/workspaces.ts";
import { Objects, SECRETS } from "../harness/objects.ts";

/**
 * Two shards that encrypt Secrets by keys which are only called the same. All other tests have shards of one key, so each
 * of their Secrets is moved as it was encrypted.
 */
let dir: string;
let testbed: LogicalClusterTestbed;
let sites: Sites;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "rehome-encryption-"));
  testbed = await startLogicalClusterTestbed({ dir, oneKey: false });
  sites = new Sites(loadConfig(testbed.configFile));
});
afterAll(async () => {
  await sites?.close();
  await testbed?.stop();
  await rm(dir, { recursive: true, force: true });
});

async function preflight(logicalCluster: string): Promise<unknown> {
  const { preflight: run } = createActivities(sites) as LogicalClusterActivities;
  return await new MockActivityEnvironment().run(run, { logicalCluster, to: "shard-1" });
}

async function makeSecret(shard: string): Promise<string> {
  const { kubeconfig } = testbed.kcp.frontProxy;
  const { cluster } = await createWorkspace({ kubeconfig, name: `secretive-${shard}`, shard });
  const objects = new Objects(new ApiServer("front-proxy", { kubeconfig, context: "base" }), cluster);
  await objects.create(SECRETS, { apiVersion: "v1", kind: "Secret", metadata: { name: "some" } });
  return cluster;
}

test("keys that have only their name in common are refused; without Secrets there is nothing to refuse", async () => {
  const { kubeconfig } = testbed.kcp.frontProxy;
  const open = await createWorkspace({ kubeconfig, name: "open", shard: "root" });
  expect(await preflight(open.cluster)).toMatchObject({ cluster: open.cluster, warnings: [] });

  const cluster = await makeSecret("root");
  const unlike = await preflight(cluster).catch((error: unknown) => error);
  expect(unlike).toMatchObject({ type: "Refused", nonRetryable: true });
  expect((unlike as Error).message).toMatch(/core\/secrets are stored differently/);

  await makeSecret("shard-1");
  const refused = await preflight(cluster).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ApplicationFailure);
  const { message } = refused as ApplicationFailure;
  expect(message).toContain("core/secrets are encrypted by keys of one name");
  expect(message).toContain("k8s:enc:secretbox:v1:key1 at root, k8s:enc:secretbox:v1:key1 at shard-1");
  expect(message).toContain("give both shards the same file in --encryption-provider-config");
});
