import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { put, remove } from "../../../etcd/store.ts";
import { stepOf } from "../../../workflows/engine/state.ts";
import { Bed, other } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { abort, approve, failureOf, runMove, startMove, stateOf, untilGate } from "../harness/moves.ts";
import { CONFIG_MAPS, configMap } from "../harness/objects.ts";
import { RawWatch } from "../harness/raw-watch.ts";
import { GADGETS, GROUP, WIDGETS, makeProvider, makeTenant } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";

let bed: Bed;
let tenant: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
  await raiseRevision("root", 5_000);
});
afterAll(async () => {
  await bed?.close();
});

/** Makes a shard's revision run ahead of the other's, as that of a busy shard does. */
async function raiseRevision(shard: ShardName, by: number): Promise<void> {
  const store = bed.store(shard);
  const [ours, theirs] = [await store.head(), await bed.store(other(shard)).head()];
  const target = (ours > theirs ? ours : theirs) + BigInt(by);
  const key = "/elsewhere/busy";
  const some = async () => {
    for (let at = 0n; at < target; at = (await store.transact([], [put(key, "")])).revision);
  };
  await Promise.all(Array.from({ length: 64 }, some));
  await store.transact([], [remove(key)]);
}

async function watchFrom(collection: string, resourceVersion: string, of = tenant): Promise<RawWatch> {
  const path = `${of.byPath.path(collection)}?watch=true&resourceVersion=${resourceVersion}`;
  const watch = await RawWatch.open(bed.kubeconfig, path);
  expect(watch.status).toBe(200);
  return watch;
}

const named =
  (type: string, name: string) => (event: { type: string; object: { metadata: { name: string } } }) =>
    event.type === type && event.object.metadata.name === name;

describe("a watch that was opened at the origin, whose revision is far ahead", () => {
  test("is cut by the move and, resumed where it was, sees everything that it has missed", async () => {
    const { objects } = tenant;
    // A client that is behind: it has seen the list, and not yet that one object went.
    await objects.create(CONFIG_MAPS, configMap("gone-before", { a: "1" }));
    const before = (await objects.list(CONFIG_MAPS)).metadata.resourceVersion;
    await objects.remove(`${CONFIG_MAPS}/gone-before`);

    await objects.create(CONFIG_MAPS, configMap("doomed", { a: "1" }));
    await objects.create(CONFIG_MAPS, configMap("changing", { a: "1" }));
    const { resourceVersion } = (await objects.list(CONFIG_MAPS)).metadata;
    const cut = await watchFrom(CONFIG_MAPS, resourceVersion);
    expect(BigInt(resourceVersion)).toBeGreaterThan(await bed.store("shard-1").head());

    const move = await startMove(bed, {
      logicalCluster: tenant.path,
      to: "shard-1",
      gates: ["Tail", "Cutover"],
    });
    await untilGate(move, "Tail");
    await objects.patch(`${CONFIG_MAPS}/changing`, { data: { a: "2" } });
    const last = (await cut.until(named("MODIFIED", "changing"))).object.metadata.resourceVersion;
    await approve(move, "Tail");
    await untilGate(move, "Cutover");
    cut.close();
    // What this client does not see any more, although the origin served it.
    await objects.remove(`${CONFIG_MAPS}/doomed`);
    for (const a of ["3", "4"]) await objects.patch(`${CONFIG_MAPS}/changing`, { data: { a } });
    const open = await watchFrom(CONFIG_MAPS, last);
    await approve(move, "Cutover");
    await open.ended;
    expect((await move.result()).verified).toBe(true);

    const resumed = await watchFrom(CONFIG_MAPS, last);
    await resumed.until(named("DELETED", "doomed"));
    // Each change, and not only what came of them.
    for (const a of ["3", "4"])
      await resumed.until(
        ({ object: { metadata, data } }) => metadata.name === "changing" && data?.["a"] === a,
      );
    await objects.create(CONFIG_MAPS, configMap("later", { a: "1" }));
    await resumed.until(named("ADDED", "later"));
    const versions = resumed.events.map(({ object }) => BigInt(object.metadata.resourceVersion));
    expect(versions).toEqual(versions.toSorted((a, b) => (a < b ? -1 : 1)));
    expect(versions.every((version) => version > BigInt(last))).toBe(true);
    resumed.close();

    const behind = await watchFrom(CONFIG_MAPS, before);
    await behind.until(named("DELETED", "gone-before"));
    behind.close();
  });

  test("gets new resourceVersions of all objects, also when the origin has counted on at a gate", async () => {
    const { objects } = tenant;
    const [from, to] = ["shard-1", "root"] as const;
    await objects.create(CONFIG_MAPS, configMap("passing", {}));
    const move = await startMove(bed, { logicalCluster: tenant.path, to, gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    await raiseRevision(from, 6_000);
    const { resourceVersion } = (await objects.list(CONFIG_MAPS)).metadata;
    await objects.remove(`${CONFIG_MAPS}/passing`);
    // Carried over at once, at a revision that this client would take for old.
    const passing = `/registry/core/configmaps/${tenant.cluster}/default/passing`;
    await expect.poll(async () => (await bed.store(to).get(passing)).entry).toBeUndefined();
    await approve(move, "Cutover");
    expect((await move.result()).verified).toBe(true);
    const resumed = await watchFrom(CONFIG_MAPS, resourceVersion);
    const { items } = await objects.list(CONFIG_MAPS);
    expect(items.length).toBeGreaterThan(3);
    for (const { metadata } of items) {
      const { name } = metadata;
      expect(BigInt(metadata.resourceVersion)).toBeGreaterThan(BigInt(resourceVersion));
      await resumed.until(
        ({ object }) =>
          object.metadata.name === name && object.metadata.resourceVersion === metadata.resourceVersion,
      );
    }
    await resumed.until(named("DELETED", "passing"));
    resumed.close();
    expect(stepOf(await stateOf(move), "Tail")?.runs).toBe(2);
    await runMove(bed, { logicalCluster: tenant.path, to: from });
  });

  /**
   * The watch cache of a custom resource begins when the resource is first asked for, so a shard that has not served it
   * before may answer 410 to an older resourceVersion, as after a restart: informers list again then. What must never
   * happen is silence.
   */
  const watched = [
    ["a bound API", WIDGETS, "export.rehome.test/v1", "Widget"],
    ["an API of the workspace's own", GADGETS, `${GROUP}/v1`, "Gadget"],
  ] as const;
  test.each(isThorough ? watched : watched.slice(0, 1))(
    "of %s, resumed, sees what it has missed or is told to list again",
    async (_which, collection, apiVersion, kind) => {
      const { objects } = tenant;
      const object = (name: string) => ({ apiVersion, kind, metadata: { name }, spec: { a: 1 } });
      for (const to of ["root", "shard-1"]) {
        await objects.create(collection, object("doomed"));
        const { resourceVersion } = (await objects.list(collection)).metadata;
        const cut = await watchFrom(collection, resourceVersion);
        const move = await startMove(bed, { logicalCluster: tenant.path, to, gates: ["Cutover"] });
        await untilGate(move, "Cutover");
        await objects.remove(`${collection}/doomed`);
        await approve(move, "Cutover");
        await cut.ended;
        await move.result();
        await objects.create(collection, object(`later-${to}`));
        const resumed = await watchFrom(collection, resourceVersion);
        const first = await resumed.until(() => true);
        if (first.type === "ERROR") expect(first.object.code).toBe(410);
        else {
          await resumed.until(named("DELETED", "doomed"));
          await resumed.until(named("ADDED", `later-${to}`));
        }
        resumed.close();
        const names = (await objects.list(collection)).items.map(({ metadata }) => metadata.name);
        expect(names).toContain(`later-${to}`);
        expect(names).not.toContain("doomed");
      }
    },
  );
});

describe("a shard that has had the cluster before, and counts ahead", () => {
  /** A client that has listed and watches again after the move. */
  async function expectNothingDeleted(moved: Tenant, to: ShardName): Promise<void> {
    const { resourceVersion } = (await moved.objects.list(CONFIG_MAPS)).metadata;
    await runMove(bed, { logicalCluster: moved.cluster, to });
    const resumed = await watchFrom(CONFIG_MAPS, resourceVersion, moved);
    await moved.objects.create(CONFIG_MAPS, configMap("last", {}));
    await resumed.until(named("ADDED", "last"));
    expect(resumed.events.filter(({ type }) => type === "DELETED")).toEqual([]);
    resumed.close();
  }

  test.runIf(isThorough)("tells nobody of copies that it lost when a move was aborted", async () => {
    const moved = await makeTenant(bed, "root", await makeProvider(bed, "root"));
    const move = await startMove(bed, { logicalCluster: moved.cluster, to: "shard-1", gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    await abort(move);
    expect(await failureOf(move.result())).toMatchObject({ type: "Aborted" });
    await expectNothingDeleted(moved, "shard-1");
  });

  test.runIf(isThorough)("tells nobody of the objects that it lost when the cluster left it", async () => {
    const moved = await makeTenant(bed, "root", await makeProvider(bed, "root"));
    const gates = ["OriginCleanup"];
    const move = await startMove(bed, { logicalCluster: moved.cluster, to: "shard-1", gates });
    await untilGate(move, "OriginCleanup");
    await raiseRevision("root", 5_000);
    await approve(move, "OriginCleanup");
    expect((await move.result()).verified).toBe(true);
    await expectNothingDeleted(moved, "root");
  });
});
