import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { logicalClusterKey, parseKey, turnKey } from "../../../etcd/keys.ts";
import { rangesOf } from "../../../etcd/scan.ts";
import { put, remove } from "../../../etcd/store.ts";
import { isLate } from "../../../kubernetes/kcp/families.ts";
import { logicalClusterPath, patchLogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { Bed } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { keysOf, nextChange } from "../harness/keys.ts";
import {
  IMPATIENT,
  abort,
  approve,
  failureOf,
  historyText,
  runMove,
  startMove,
  stateOf,
  untilGate,
  untilPending,
  untilState,
} from "../harness/moves.ts";
import { CONFIG_MAPS, Objects, configMap } from "../harness/objects.ts";
import { makeRobot } from "../harness/robot.ts";
import { writeToBothShards } from "../harness/shard-writers.ts";
import { MARKER, contents, makeProvider, makeTenant, makeWorkspace } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";
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

test("never do both shards take a tenant's writes, and what the first has taken the second serves", async () => {
  const tenant = await makeTenant(bed, "root", provider);
  const token = await makeRobot(tenant.objects);
  const writers = writeToBothShards(bed, tenant, token);
  const report = await runMove(bed, { logicalCluster: tenant.cluster, to: "shard-1" });
  expect(report).toMatchObject({ verified: true, cleaned: { conflicts: [] } });
  await writers.expectOneAfterTheOther("root", "shard-1");
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
  const then = deleted.seen.then(async () => await bed.store("shard-1").head());
  await runMove(bed, { logicalCluster: tenant.cluster, to: "shard-1" });
  expect((await proven.seen).entry.modRevision).toBeLessThanOrEqual(await then);
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
    // What differs is told by its key.
    const told = (await historyText(move)).text + readFileSync(bed.worker.spec.logFile, "utf8");
    expect([MARKER, "TENANT-DATA"].filter((secret) => told.includes(secret))).toEqual([]);
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
  await expect.poll(carried).toBeDefined();
  await approve(move, "Cutover");
  expect(await move.result()).toMatchObject({ verified: true });
  await expectSettledOn(bed, tenant, "shard-1");
});

test("what was missed and then compacted is carried over too, deletions among it", async () => {
  const tenant = await makeTenant(bed, "root", provider);
  const { objects, cluster } = tenant;
  const origin = bed.store("root");
  const input = { logicalCluster: cluster, to: "shard-1", gates: ["Cutover"], timeouts: IMPATIENT };
  const move = await startMove(bed, input);
  await untilGate(move, "Cutover");
  await untilPending(move, "follow");
  const served = await bed.withoutWorker(async () => {
    await objects.remove(`${CONFIG_MAPS}/settings-alpha`);
    await objects.patch(`${CONFIG_MAPS}/settings-beta`, { data: { changed: "unseen" } });
    await objects.create(CONFIG_MAPS, configMap("made-unseen", {}));
    // Nobody has read these changes, and from now on nobody can.
    await origin.compact(await origin.head());
    return await contents(objects);
  });
  await approve(move, "Cutover");
  expect(await move.result()).toMatchObject({ verified: true, cleaned: { conflicts: [] } });
  expect(await contents(objects)).toEqual(served);
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

test.runIf(isThorough)(
  "what was written at the origin after the drain is carried over, unless the destination has changed it too",
  async () => {
    const { cluster } = await makeWorkspace(bed, "late", "root");
    const objects = new Objects(bed.frontProxy, cluster);
    for (const name of ["changed", "both"])
      await objects.create(CONFIG_MAPS, configMap(name, { a: "first" }));
    const bystander = await makeWorkspace(bed, "bystander", "root");
    const others = new Objects(bed.frontProxy, bystander.cluster);
    for (const name of ["gone", "reborn"]) await others.create(CONFIG_MAPS, configMap(name, {}));
    const next = await makeWorkspace(bed, "next", "root");
    const input = { logicalCluster: cluster, to: "shard-1", fence: "inactive", gates: ["AwaitRouting"] };
    const move = await startMove(bed, input);
    await untilGate(move, "AwaitRouting");
    const { api } = bed.shards.root;
    const labels = { "rehome.test/late": "yes" };
    await patchLogicalCluster(api, cluster, { metadata: { labels } });
    const here = bed.store("root");
    const keyOf = (name: string) => `/registry/core/configmaps/${cluster}/default/${name}`;
    for (const name of ["changed", "both"]) {
      const { entry } = await here.get(keyOf(name));
      const value = Buffer.from(entry!.value.toString("latin1").replaceAll("first", "later"), "latin1");
      await here.transact([], [put(keyOf(name), value)]);
    }
    await new Objects(bed.shards["shard-1"].api, cluster).patch(`${CONFIG_MAPS}/both`, {
      data: { a: "there" },
    });
    for (const name of ["gone", "reborn"]) await others.remove(`${CONFIG_MAPS}/${name}`);
    await others.create(CONFIG_MAPS, configMap("reborn", {}));
    // One that would cut all watches again is sent back, and waits where it can be aborted.
    const waiting = await startMove(bed, { ...input, logicalCluster: next.cluster, gates: ["Cutover"] });
    await untilGate(waiting, "Cutover");
    await approve(waiting, "Cutover");
    const { lastError } = await untilState(
      waiting,
      ({ comebacks, phase }) => comebacks > 0 && phase === "Tail",
    );
    expect(lastError?.message).toContain(`${cluster} leaves it`);
    await abort(waiting);
    expect((await failureOf(waiting.result())).type).toBe("Aborted");
    await approve(move, "AwaitRouting");
    const { verified, cleaned, leftInPlace } = await move.result();
    expect((await here.get(turnKey(here.prefix))).entry).toBeUndefined();
    expect(verified).toBe(true);
    // What the shard may not have learned, for somebody to restart it.
    const unlearned = leftInPlace.filter((left) => left.includes("deleted while the fence inactive"));
    expect(unlearned).toEqual([
      expect.stringMatching(
        new RegExp(`restarted .*; \\d+: .*/configmaps/${bystander.cluster}/default/gone\\b`),
      ),
    ]);
    expect(unlearned.join()).not.toContain("reborn");
    expect(cleaned?.conflicts).toMatchObject([{ key: expect.stringContaining("/default/both") as string }]);
    expect((await objects.get(`${CONFIG_MAPS}/changed`)).data).toEqual({ a: "later" });
    expect((await objects.get(`${CONFIG_MAPS}/both`)).data).toEqual({ a: "there" });
    // What is in conflict stays for a person to look at.
    expect(await keysOf(here, cluster)).toEqual(cleaned?.conflicts.map(({ key }) => key));
    await here.transact([], [remove(keyOf("both"))]);
    const path = logicalClusterPath(cluster);
    const { metadata } = await bed.frontProxy.json<LogicalCluster>({ path });
    expect(metadata.labels).toMatchObject(labels);
  },
);
