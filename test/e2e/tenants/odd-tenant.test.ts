import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Bed } from "../harness/bed.ts";
import { keysOf, ownKeysLeft, ofBystanders } from "../harness/keys.ts";
import { approve, startMove, untilGate } from "../harness/moves.ts";
import type { Report } from "../harness/moves.ts";
import { contents, expectAlive, makeProvider, makeTenant } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { changeFast, rebirths } from "../harness/churn.ts";
import type { Churn } from "../harness/churn.ts";
import { oddDeletions } from "./odd-deletions.ts";
import { oddObjects } from "./odd-objects.ts";
import { oddRules } from "./odd-rules.ts";
import type { Oddity, Place } from "./oddity.ts";

/** Everything odd that a tenant may have, in one workspace, in one move, while clients write without a pause. */
const ODDITIES: readonly Oddity[] = [...oddObjects(), ...oddDeletions(), ...oddRules()];
const REBORN = ["phoenix-1", "phoenix-2", "phoenix-3"];

let bed: Bed;
let tenant: Tenant;
let bystanders: Tenant[];
let place: Place;
let churns: Churn[];
let served: Map<string, unknown>;
let before: Map<string, string>;
let report: Report;

beforeAll(async () => {
  bed = await Bed.open();
  const provider = await makeProvider(bed, "root");
  tenant = await makeTenant(bed, "root", provider);
  bystanders = [await makeTenant(bed, "root", provider), await makeTenant(bed, "shard-1", provider)];
  const { cluster, objects } = tenant;
  place = { bed, cluster, objects, from: "root", to: "shard-1" };
  await makeOddities();
  served = await contents(objects);
  before = await ofBystanders(bed, untouched());
  churns = [await changeFast(objects, "restless", 8), rebirths(objects, REBORN)];
  try {
    report = await move();
  } finally {
    await Promise.all(churns.map(async (churn) => await churn.stop()));
  }
});
afterAll(async () => {
  await bed?.close();
});

/** Policies last: they would judge what comes after them. */
async function makeOddities(): Promise<void> {
  for (const oddity of ODDITIES) await oddity.before(place);
}

function untouched(): string[] {
  return bystanders.map(({ cluster }) => cluster);
}

async function move(): Promise<Report> {
  const gates = ["Verify", "Cutover"];
  const running = await startMove(bed, { logicalCluster: tenant.path, to: place.to, gates });
  await untilGate(running, "Verify");
  await Promise.all(ODDITIES.map(async (oddity) => await oddity.beforeVerify?.(place)));
  await approve(running, "Verify");
  await untilGate(running, "Cutover");
  await Promise.all(ODDITIES.map(async (oddity) => await oddity.beforeCutover?.(place)));
  await approve(running, "Cutover");
  return await running.result();
}

describe("a move of a tenant with everything odd in it", () => {
  test("is proven equal and loses no write to clients that never stop", async () => {
    expect(report).toMatchObject({ to: "shard-1", verified: true, cleaned: { conflicts: [] } });
    for (const churn of churns) {
      expect(churn.acknowledged).toBeGreaterThan(100);
      await churn.expectKept();
    }
  });

  test("touches no key of others", async () => {
    expect(before.size).toBeGreaterThan(20);
    const after = await ofBystanders(bed, untouched());
    const touched = [...new Set([...before.keys(), ...after.keys()])].filter(
      (key) => before.get(key) !== after.get(key),
    );
    expect(touched.map((key) => ({ key, was: before.get(key), is: after.get(key) }))).toEqual([]);
  });

  test.each(ODDITIES.map((oddity) => [oddity.what, oddity] as const))("keeps %s", async (_what, oddity) => {
    await oddity.after(place);
  });

  test("leaves everything else as it was, alive, and nothing at the origin", async () => {
    const now = await contents(tenant.objects);
    const changed = /restless|phoenix|doomed|held|by-robot|allowed|hooked|robot-token|gadgets\/large-0/;
    for (const [path, object] of served) if (!changed.test(path)) expect(now.get(path)).toEqual(object);
    await expectAlive(tenant);
    expect(await keysOf(bed.store("root"), tenant.cluster)).toEqual([]);
    for (const shard of ["root", "shard-1"] as const) {
      expect(await ownKeysLeft(bed.store(shard), tenant.cluster)).toEqual([]);
    }
  });
});
