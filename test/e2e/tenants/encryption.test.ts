import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApplicationFailure } from "@temporalio/common";
import { MockActivityEnvironment } from "@temporalio/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createActivities } from "../../../activities/index.ts";
import type { LogicalClusterActivities } from "../../../activities/logical-cluster/types.ts";
import { loadConfig } from "../../../sites/config.ts";
import { Sites } from "../../../sites/sites.ts";
import { startLogicalClusterTestbed } from "../../../testbed/logical-cluster.ts";
import type { LogicalClusterTestbed } from "../../../testbed/logical-cluster.ts";
import { createWorkspace } from "../../../testbed/workspaces.ts";

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

test("a shard that could not read what is copied is not copied to", async () => {
  const { kubeconfig } = testbed.kcp.frontProxy;
  // Without a Secret: a user could make one while the move runs.
  const { cluster } = await createWorkspace({ kubeconfig, name: "secretive", shard: "root" });
  const { preflight } = createActivities(sites) as LogicalClusterActivities;
  const input = { logicalCluster: cluster, to: "shard-1" };
  const refused = await new MockActivityEnvironment().run(preflight, input).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ApplicationFailure);
  const { type, nonRetryable, message } = refused as ApplicationFailure;
  expect({ type, nonRetryable }).toEqual({ type: "Refused", nonRetryable: true });
  expect(message).toContain("the two shards do not encrypt by the same configuration");
  expect(message).toMatch(/found: sha256:\w+ at root, sha256:\w+ at shard-1/);
  expect(message).toContain("give both shards the same file in --encryption-provider-config");
});
