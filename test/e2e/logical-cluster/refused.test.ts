import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logicalClusterKey } from "../../../etcd/keys.ts";
import { put, remove } from "../../../etcd/store.ts";
import { raiseAlarm } from "../harness/alarm.ts";
import { Bed, SHARDS, other } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { ownKeysLeft } from "../harness/keys.ts";
import { failureOf, runMove } from "../harness/moves.ts";
import { CONFIG_MAPS, Objects, configMap } from "../harness/objects.ts";
import { createWorkspace } from "../../../testbed/workspaces.ts";
import { EXPORTED, makeProvider, makeTenant, makeWorkspace } from "../harness/tenant.ts";

/** States of clusters, shards and stores in which a move would not be safe. */
let bed: Bed;
beforeAll(async () => {
  bed = await Bed.open();
});
afterAll(async () => {
  await bed?.close();
});

const TENANCY = "/apis/tenancy.kcp.io/v1alpha1";
const LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/** Refused at the door, with all these words, and without a key of rehome's own in a store. */
async function expectRefused(input: { logicalCluster: string; to: string }, ...words: string[]) {
  const failed = await failureOf(runMove(bed, input));
  expect(failed).toMatchObject({ type: "Refused", nonRetryable: true, details: { phase: "Preflight" } });
  for (const word of words) expect(failed.message).toContain(word);
  for (const shard of SHARDS) expect(await ownKeysLeft(bed.store(shard), input.logicalCluster)).toEqual([]);
}

describe("a cluster", () => {
  test("that is being deleted, and held by a finalizer", async () => {
    const { name, cluster } = await makeWorkspace(bed, "leaving", "root");
    const objects = new Objects(bed.frontProxy, cluster);
    const held = configMap("held", {}) as { metadata: object };
    const finalizers = ["rehome.test/stay"];
    await objects.create(CONFIG_MAPS, { ...held, metadata: { ...held.metadata, finalizers } });
    const root = new Objects(bed.frontProxy, "root");
    await root.remove(`${TENANCY}/workspaces/${name}`);
    await objects.until(LOGICAL_CLUSTER, (found) => found?.metadata.deletionTimestamp !== undefined);
    await expectRefused({ logicalCluster: cluster, to: "shard-1" }, cluster, "it is being deleted");
    await objects.patch(`${CONFIG_MAPS}/held`, { metadata: { finalizers: null } });
    await root.untilGone(`${TENANCY}/workspaces/${name}`);
  });

  test("that its initializer has not finished", async () => {
    const root = new Objects(bed.frontProxy, "root");
    const type = "unfinished";
    await root.create(`${TENANCY}/workspacetypes`, {
      apiVersion: "tenancy.kcp.io/v1alpha1",
      kind: "WorkspaceType",
      metadata: { name: type },
      spec: { initializer: true },
    });
    await root.create(`${TENANCY}/workspaces`, {
      apiVersion: "tenancy.kcp.io/v1alpha1",
      kind: "Workspace",
      metadata: { name: type },
      spec: { type: { name: type, path: "root" }, location: { selector: { matchLabels: { name: "root" } } } },
    });
    const path = `${TENANCY}/workspaces/${type}`;
    await root.until(path, (found) => found?.status?.["phase"] === "Initializing");
    const cluster = (await root.get(path)).spec!["cluster"] as string;
    await expectRefused({ logicalCluster: cluster, to: "shard-1" }, "its phase is Initializing, not Ready");
    await root.remove(path);
    await root.untilGone(path);
    await root.remove(`${TENANCY}/workspacetypes/${type}`);
  });

  test("whose API has lost its export", async () => {
    const provider = await makeProvider(bed, "root");
    const { cluster } = await makeTenant(bed, "root", provider);
    const at = new Objects(bed.frontProxy, provider.cluster);
    const apiExport = `/apis/apis.kcp.io/v1alpha2/apiexports/${EXPORTED}`;
    await at.remove(apiExport);
    await at.untilGone(apiExport);
    await expectRefused(
      { logicalCluster: cluster, to: "shard-1" },
      "APIBinding widgets",
      `${provider.path}|${EXPORTED}`,
      "remove the binding or restore the export",
    );
  });

  test("that both shards hold", async () => {
    const { cluster } = await makeWorkspace(bed, "twice", "root");
    const key = logicalClusterKey("/registry", cluster);
    const { entry } = await bed.store("root").get(key);
    await bed.store("shard-1").transact([], [put(key, entry!.value)]);
    await expectRefused({ logicalCluster: cluster, to: "shard-1" }, "is on two shards: root, shard-1");
    await bed.store("shard-1").transact([], [remove(key)]);
  });
});

describe("content", () => {
  test.each([false, true])("that is owned by what comes in the cutover only (dryRun: %s)", async (dryRun) => {
    const { cluster, path } = await makeWorkspace(bed, "owned", "root");
    const objects = new Objects(bed.frontProxy, cluster);
    await createWorkspace({ kubeconfig: bed.kubeconfig, name: "child", parent: path, shard: "root" });
    const child = await objects.get(`${TENANCY}/workspaces/child`);
    await objects.create(CONFIG_MAPS, configMap("childs", {}, child));
    const failed = await failureOf(runMove(bed, { logicalCluster: cluster, to: "shard-1", dryRun }));
    expect(failed).toMatchObject({ type: "Refused", details: { phase: "CopySnapshot" } });
    expect(failed.message).toContain("configmaps");
    expect(failed.message).toContain("Workspace child");
    for (const shard of SHARDS) expect(await ownKeysLeft(bed.store(shard), cluster)).toEqual([]);
    expect(await objects.find(`${CONFIG_MAPS}/childs`)).toBeDefined();
  });
});

describe("a shard", () => {
  test.each(SHARDS)("whose etcd has an alarm: %s", async (shard) => {
    const { cluster: here } = await makeWorkspace(bed, "alarmed", shard);
    const { cluster: there } = await makeWorkspace(bed, "alarmed", other(shard));
    await using _ = await raiseAlarm(bed, shard);
    const words = [shard, "has alarms: NOSPACE", "etcdctl alarm list"];
    await expectRefused({ logicalCluster: here, to: other(shard) }, "from: ", ...words);
    await expectRefused({ logicalCluster: there, to: shard }, "to: ", ...words);
  });

  test("whose revision is too far behind", async () => {
    const heads = await Promise.all(SHARDS.map(async (shard) => await bed.store(shard).head()));
    const [ahead, gap]: [ShardName, bigint] =
      heads[0]! > heads[1]! ? ["root", heads[0]! - heads[1]!] : ["shard-1", heads[1]! - heads[0]!];
    const { cluster } = await makeWorkspace(bed, "ahead", ahead);
    const maxRevisionGap = Math.max(1, Number(gap / 2n));
    const input = { logicalCluster: cluster, to: other(ahead), maxRevisionGap };
    await expectRefused(input, `raise maxRevisionGap (now ${maxRevisionGap})`, "accept-relist");
  });
});
