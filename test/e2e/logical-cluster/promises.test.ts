import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { logicalClusterKey, parseKey } from "../../../etcd/keys.ts";
import { rangesOf } from "../../../etcd/scan.ts";
import { put, remove } from "../../../etcd/store.ts";
import { isLate } from "../../../kubernetes/kcp/families.ts";
import { logicalClusterPath, patchLogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import { loadConfig } from "../../../sites/config.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { Bed, SHARDS } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { nextChange } from "../harness/keys.ts";
import { approve, runMove, startMove, stateOf, untilGate } from "../harness/moves.ts";
import { CONFIG_MAPS, Objects, configMap } from "../harness/objects.ts";
import { makeRobot, serverAs } from "../harness/robot.ts";
import { contents, makeProvider, makeTenant, makeWorkspace } from "../harness/tenant.ts";
import type { Workspace } from "../../../testbed/workspaces.ts";

/** Promises of a move that nobody sees broken who goes through the front-proxy and looks at the end. */
let bed: Bed;
let provider: Workspace;
beforeAll(async () => {
  bed = await Bed.open();
  provider = await makeProvider(bed, "root");
});
afterAll(async () => {
  await bed?.close();
});

interface Taken {
  readonly name: string;
  /** When the answer was there. */
  readonly at: number;
}

/** Writes to one shard's API server, past the front-proxy, for as long as it is not stopped. */
async function writeTo(
  shard: ShardName,
  { cluster, token, stop }: { cluster: string; token: string; stop: AbortSignal },
): Promise<Taken[]> {
  const { kubeconfig, context } = loadConfig(bed.testbed.rehomeConfig).kcp!.shards[shard]!;
  const server = await serverAs(token, {
    kubeconfig: kubeconfig!,
    context,
    server: bed.shards[shard].api.url,
  });
  const path = new Objects(server, cluster).path(CONFIG_MAPS);
  const taken: Taken[] = [];
  for (let turn = 0; !stop.aborted; turn++) {
    const name = `by-${shard}-${turn}`;
    // The fence cuts connections; what became of such a write nobody was told.
    const answer = server.request({ method: "POST", path, body: configMap(name, {}) });
    const status = await answer.then(
      (told) => told.status,
      () => undefined,
    );
    if (status === 201) taken.push({ name, at: performance.now() });
    else await delay(2);
  }
  return taken;
}

test("never do both shards take a tenant's writes, and what the first has taken the second serves", async () => {
  const tenant = await makeTenant(bed, "root", provider);
  const token = await makeRobot(tenant.objects);
  const stop = new AbortController();
  const writers = Promise.all(
    SHARDS.map(async (shard) => await writeTo(shard, { cluster: tenant.cluster, token, stop: stop.signal })),
  );
  const report = await runMove(bed, { logicalCluster: tenant.cluster, to: "shard-1" });
  expect(report).toMatchObject({ verified: true, cleaned: { conflicts: [] } });
  stop.abort();
  const [first, second] = (await writers) as [Taken[], Taken[]];
  expect(first.length).toBeGreaterThan(10);
  expect(second.length).toBeGreaterThan(10);
  expect(first.at(-1)!.at).toBeLessThan(second[0]!.at);
  const served = new Set((await tenant.objects.list(CONFIG_MAPS)).items.map(({ metadata }) => metadata.name));
  expect([...first, ...second].filter(({ name }) => !served.has(name))).toEqual([]);
  await expectSettledOn(bed, tenant, "shard-1");
});

test("nothing is deleted at the origin before the destination has taken a write", async () => {
  const tenant = await makeTenant(bed, "root", provider);
  const object = logicalClusterKey("/registry", tenant.cluster);
  const proven = await nextChange(
    bed.store("shard-1"),
    ({ entry }) => entry.key === object && entry.value.includes("proof-of-write"),
  );
  const deleted = await nextChange(
    bed.store("root"),
    ({ type, entry }) => type === "Delete" && parseKey("/registry", entry.key)?.cluster === tenant.cluster,
  );
  const order: string[] = [];
  const seen = Promise.all([
    proven.seen.then(() => order.push("proven")),
    deleted.seen.then(() => order.push("deleted")),
  ]);
  await runMove(bed, { logicalCluster: tenant.cluster, to: "shard-1" });
  await seen;
  expect(order).toEqual(["proven", "deleted"]);
});

test.each(["Verify", "Cutover"])(
  "a stranger's writes at the destination before %s are found, and undone before anybody is served there",
  async (gate) => {
    const tenant = await makeTenant(bed, "root", provider);
    const served = await contents(tenant.objects);
    const there = bed.store("shard-1");
    const move = await startMove(bed, { logicalCluster: tenant.cluster, to: "shard-1", gates: [gate] });
    await untilGate(move, gate);
    const keyOf = (name: string) => `/registry/core/configmaps/${tenant.cluster}/default/${name}`;
    const { entry } = await there.get(keyOf("settings-alpha"));
    // Stored as protobuf, in which a text may change as long as its length does not.
    const value = (from: string, to: string) =>
      Buffer.from(entry!.value.toString("latin1").replaceAll(from, to), "latin1");
    await there.transact([], [put(keyOf("settings-alpha"), value("tenant-data", "TENANT-DATA"))]);
    await there.transact([], [remove(keyOf("settings-beta"))]);
    await there.transact([], [put(keyOf("stranger-alpha"), value("settings-", "stranger-"))]);
    await approve(move, gate);
    expect(await move.result()).toMatchObject({ verified: true, cleaned: { conflicts: [] } });
    expect((await stateOf(move)).comebacks).toBe(gate === "Cutover" ? 1 : 0);
    expect(await contents(tenant.objects)).toEqual(served);
    await expectSettledOn(bed, tenant, "shard-1");
  },
);

test("after a repair, changes are carried over again while the move waits", async () => {
  const tenant = await makeTenant(bed, "root", provider);
  const there = bed.store("shard-1");
  const gates = ["Verify", "Cutover"];
  const move = await startMove(bed, { logicalCluster: tenant.cluster, to: "shard-1", gates });
  await untilGate(move, "Verify");
  const keyOf = (name: string) => `/registry/core/configmaps/${tenant.cluster}/default/${name}`;
  await there.transact([], [remove(keyOf("settings-beta"))]);
  await approve(move, "Verify");
  await untilGate(move, "Cutover");
  await tenant.objects.create(CONFIG_MAPS, configMap("made-at-the-gate", {}));
  const carried = async () => (await there.get(keyOf("made-at-the-gate"))).entry;
  await expect.poll(carried, { timeout: 30_000 }).toBeDefined();
  await approve(move, "Cutover");
  expect(await move.result()).toMatchObject({ verified: true });
  await expectSettledOn(bed, tenant, "shard-1");
});

test("what only one shard may hold is at one shard while the move waits before its cleanup", async () => {
  const exporter = await makeProvider(bed, "root");
  const input = { logicalCluster: exporter.cluster, to: "shard-1", gates: ["Cutover", "OriginCleanup"] };
  const late = async (shard: ShardName) =>
    (await rangesOf(bed.store(shard), exporter.cluster)).map(({ family }) => family).filter(isLate);
  const move = await startMove(bed, input);
  await untilGate(move, "Cutover");
  expect(await late("shard-1")).toEqual([]);
  await approve(move, "Cutover");
  await untilGate(move, "OriginCleanup");
  expect(await late("root")).toEqual([]);
  expect(await late("shard-1")).not.toEqual([]);
  // No shard takes a binding to an export that it finds at two; the origin's fence, under which it asks, comes off later.
  await makeTenant(bed, "shard-1", exporter);
  await approve(move, "OriginCleanup");
  expect(await move.result()).toMatchObject({ verified: true, cleaned: { conflicts: [] } });
  await makeTenant(bed, "root", exporter);
});

test("a label that the cluster's own object got at the origin after the drain is carried over", async () => {
  const { cluster } = await makeWorkspace(bed, "labelled", "root");
  const input = { logicalCluster: cluster, to: "shard-1", fence: "inactive", gates: ["AwaitRouting"] };
  const move = await startMove(bed, input);
  await untilGate(move, "AwaitRouting");
  const { api } = bed.shards.root;
  const labels = { "rehome.test/late": "yes" };
  await patchLogicalCluster(api, cluster, { metadata: { labels } });
  await approve(move, "AwaitRouting");
  expect(await move.result()).toMatchObject({ verified: true });
  const path = logicalClusterPath(cluster);
  const { metadata } = await bed.frontProxy.json<LogicalCluster>({ path });
  expect(metadata.labels).toMatchObject(labels);
});
