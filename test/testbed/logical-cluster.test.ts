import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiServer } from "../../kubernetes/api-server.ts";
import { loadConfig } from "../../sites/config.ts";
import type { ClientTls } from "../../testbed/certificates.ts";
import { callEtcd } from "../../testbed/etcd-gateway.ts";
import { startKcp } from "../../testbed/kcp.ts";
import { startLogicalClusterTestbed } from "../../testbed/logical-cluster.ts";
import type { LogicalClusterTestbed } from "../../testbed/logical-cluster.ts";
import { identityOf } from "../../testbed/process-identity.ts";
import { createWorkspace, deleteWorkspace } from "../../testbed/workspaces.ts";
import { waitUntilGone } from "./wait.ts";

let dir: string;
let testbed: LogicalClusterTestbed;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "rehome-testbed-"));
  testbed = await startLogicalClusterTestbed({ dir });
});

afterAll(async () => {
  const processes = testbed.servers.map(({ pid }) => identityOf(pid));
  await testbed.stop();
  await waitUntilGone(processes, 0);
  await rm(dir, { recursive: true });
});

/** Number of keys under a prefix, read through etcd's JSON gateway with the client certificate. */
async function countKeys(endpoint: string, tls: ClientTls, prefix: string): Promise<number> {
  const end =
    prefix.slice(0, -1) + String.fromCodePoint((prefix.codePointAt(prefix.length - 1) as number) + 1);
  const answer = await callEtcd(endpoint, tls, "/v3/kv/range", {
    key: btoa(prefix),
    range_end: btoa(end),
    count_only: true,
  });
  return Number(answer["count"] ?? 0);
}

function frontProxy(): ApiServer {
  return new ApiServer("front-proxy", { kubeconfig: testbed.kcp.frontProxy.kubeconfig, context: "base" });
}

/** 403: the shard has the handler of kcp's own migration, but not for this user. 404: it does not have it. */
async function dumpStatus(shard: ApiServer): Promise<number> {
  const path = "/clusters/root/apis/migration.kcp.io/v1alpha1/logicalclusterdumps";
  return (await shard.request({ method: "POST", path, body: {} })).status;
}

describe("the test bed for logical clusters", () => {
  it("writes a configuration that names both shards", () => {
    const config = loadConfig(testbed.configFile);
    expect(Object.keys(config.kcp?.shards ?? {})).toEqual(["root", "shard-1"]);
    expect(config.temporal.address).toBe(testbed.temporal.address);
  });

  it("serves Temporal's web UI", async () => {
    expect((await fetch(testbed.temporal.uiUrl)).status).toBe(200);
  });

  it.each(["root", "shard-1"])(
    "puts a workspace on shard %s, and its keys into that etcd only",
    async (shard) => {
      const { kubeconfig } = testbed.kcp.frontProxy;
      const name = `on-${shard}`;
      const workspace = await createWorkspace({ kubeconfig, name, shard });
      expect(workspace.path).toBe(`root:${name}`);
      for (const { name: owner, etcd, etcdPrefix } of testbed.kcp.shards) {
        const key = `${etcdPrefix}/core.kcp.io/logicalclusters/customresources/${workspace.cluster}/`;
        expect(await countKeys(etcd.endpoints[0]!, etcd.tls, key)).toBe(owner === shard ? 1 : 0);
      }
      await deleteWorkspace({ kubeconfig, name });
      await expect(
        frontProxy().find({ path: `/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/${name}` }),
      ).resolves.toBeUndefined();
    },
  );

  it("has kcp's own migration, which makes the fence, switched on in both shards", async () => {
    for (const { name, kubeconfig } of testbed.kcp.shards) {
      expect(await dumpStatus(new ApiServer(name, { kubeconfig }))).toBe(403);
    }
  });

  it("goes on serving a shard's workspaces after that shard was killed and started again", async () => {
    const { kubeconfig } = testbed.kcp.frontProxy;
    const { cluster } = await createWorkspace({ kubeconfig, name: "survivor", shard: "shard-1" });
    const { server } = testbed.kcp.shard("shard-1");
    await server.kill();
    await server.start();
    const path = `/clusters/${cluster}/api/v1/namespaces/default`;
    const shard = new ApiServer("shard-1", { kubeconfig: testbed.kcp.shard("shard-1").kubeconfig });
    expect((await shard.request({ path })).status).toBe(200);
    expect((await frontProxy().request({ path })).status).toBe(200);
  });
});

it("can be had without kcp's own migration, and with one shard only", async () => {
  const kcp = await startKcp({ dir: join(dir, "without"), extraShards: [], migrationGate: false });
  const [root] = kcp.shards;
  expect(kcp.shards).toHaveLength(1);
  expect(await dumpStatus(new ApiServer("root", { kubeconfig: root?.kubeconfig as string }))).toBe(404);
  await kcp.stop();
});
