import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectNoTrace } from "../harness/aftermath.ts";
import { Bed, other } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import {
  carriedOver,
  changesOf,
  isPartOfMove,
  keysOf,
  ownKeysLeft,
  snapshots,
  touched,
  untilSettled,
} from "../harness/keys.ts";
import { runMove } from "../harness/moves.ts";
import { CONFIG_MAPS, Objects, configMap } from "../harness/objects.ts";
import {
  CRDS,
  GROUP,
  contents,
  crd,
  deleteOwners,
  expectAlive,
  makeOwners,
  makeProvider,
  makeTenant,
  makeWorkspace,
  removeWorkspace,
} from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";

/**
 * kcp writes the conditions of a CRD, and in the LogicalCluster the lock on its resource, again some time after the CRD
 * was made, moves or not. That both are still there is checked all the same.
 */
const KCP_GOES_ON = /\/customresourcedefinitions\/|\/logicalclusters\/customresources\/[^/]+\/cluster$/;

let bed: Bed;
let tenant: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
  for (const shard of ["root", "shard-1"] as const) await makeLookalikes(shard, tenant.cluster);
});
afterAll(async () => {
  await bed?.close();
});

/** A tenant that gives everything it can name the id of the victim. */
async function makeLookalikes(shard: ShardName, victim: string): Promise<void> {
  const { cluster } = await makeWorkspace(bed, "lookalike", shard);
  const objects = new Objects(bed.frontProxy, cluster);
  await objects.create("/api/v1/namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: victim },
  });
  const inside = `/api/v1/namespaces/${victim}/configmaps`;
  for (const name of ["one", "two", victim]) await objects.create(inside, configMap(name, { keep: "me" }));
  await objects.create(CONFIG_MAPS, configMap(victim, { keep: "me" }));
  // A resource's name starts with a letter, so only where the id does can it be the id itself.
  const [group, plural] = [`${victim}.rehome.test`, /^[a-z]/.test(victim) ? victim : `a${victim}`];
  await objects.create(CRDS, crd(group, plural, "Look"));
  const looks = `/apis/${group}/v1/namespaces/${victim}/${plural}`;
  await objects.create(looks, { apiVersion: `${group}/v1`, kind: "Look", metadata: { name: victim } });
}

/** A garbage collector that sees an owner go may delete what it owned when that has come back to the shard. */
async function expectOwnersWentLast(from: ShardName, owners: string, since: bigint): Promise<void> {
  const changes = await changesOf(bed.store(from), tenant.cluster, since);
  const isOfOwners = ({ type, entry }: (typeof changes)[number]) =>
    type === "Delete" && entry.key.includes(`/${owners}`);
  const names = changes
    .filter(isOfOwners)
    .map(({ entry }) => entry.key.slice(entry.key.lastIndexOf("/") + 1));
  expect(names).toEqual([`${owners}-grandchild`, `${owners}-child`, owners]);
}

describe("a workspace in use", () => {
  test.each<[string, ShardName]>([
    ["there", "shard-1"],
    ["back", "root"],
    ["there again", "shard-1"],
  ])("moves %s, whole, and nothing else is touched", async (_which, to) => {
    const owners = await makeOwners(tenant.objects);
    const served = await contents(tenant.objects);
    await untilSettled(bed);
    const before = await snapshots(bed);
    const carried = await carriedOver(bed.store(other(to)), tenant.cluster);
    const since = (await bed.store(other(to)).head()) + 1n;

    const report = await runMove(bed, { logicalCluster: tenant.path, to });
    expect(report).toMatchObject({ cluster: tenant.cluster, from: other(to), to, verified: true });
    expect(report.cleaned?.conflicts).toEqual([]);
    await expectOwnersWentLast(other(to), owners, since);

    const after = await snapshots(bed);
    const isPart = isPartOfMove(tenant.cluster, tenant.name);
    for (const shard of [to, other(to)]) {
      const isExpected = (key: string) => isPart(key) || (KCP_GOES_ON.test(key) && after[shard].has(key));
      expect(touched(before[shard], after[shard], isExpected)).toEqual([]);
    }
    expect(carried.size).toBeGreaterThan(10);
    const there = await carriedOver(bed.store(to), tenant.cluster);
    expect([...carried.keys()].filter((key) => there.get(key) !== carried.get(key))).toEqual([]);
    expect(await keysOf(bed.store(other(to)), tenant.cluster)).toEqual([]);
    for (const shard of [to, other(to)])
      expect(await ownKeysLeft(bed.store(shard), tenant.cluster)).toEqual([]);
    expect(await contents(tenant.objects)).toEqual(served);
    await expectAlive(tenant);
    await deleteOwners(tenant.objects, owners);
    expect(await keysOf(bed.store(other(to)), tenant.cluster)).toEqual([]);
  });

  test("empties its shard when it is deleted", async () => {
    // kcp v0.32.3 leaves custom resources behind when their CRD goes together with its workspace, moved or not.
    await tenant.objects.remove(`${CRDS}/gadgets.${GROUP}`);
    await tenant.objects.untilGone(`${CRDS}/gadgets.${GROUP}`);
    await removeWorkspace(bed, tenant);
    await expectNoTrace(bed, tenant.cluster);
  });
});
