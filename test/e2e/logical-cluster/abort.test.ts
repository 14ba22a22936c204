import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logicalClusterKey } from "../../../etcd/keys.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { Bed } from "../harness/bed.ts";
import { putConfigMaps } from "../harness/bulk.ts";
import { nextChange, own } from "../harness/keys.ts";
import {
  abort,
  approve,
  failureOf,
  runMove,
  startMove,
  stateOf,
  untilGate,
  untilState,
} from "../harness/moves.ts";
import { contents, expectAlive, makeProvider, makeTenant } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";

let bed: Bed;
let tenant: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
});
afterAll(async () => {
  await bed?.close();
});

/** An abort undoes all phases before its gate, so the last of these runs every undo. A thorough run takes all. */
const BEFORE = ["AlignRevisions", "CopySnapshot", "Tail", "Verify", "Cutover"];
const AFTER = ["AwaitRouting", "OriginCleanup", "Finalize"];

describe("abort before the switch", () => {
  test.each(isThorough ? BEFORE : BEFORE.slice(-1))(
    "while the move waits before %s: the origin serves, and nothing of the move is left",
    async (gate) => {
      const served = await contents(tenant.objects);
      const move = await startMove(bed, { logicalCluster: tenant.cluster, to: "shard-1", gates: [gate] });
      await untilGate(move, gate);
      await abort(move);
      const { type, message, details } = await failureOf(move.result());
      expect({ type, message }).toEqual({ type: "Aborted", message: "aborted by anna: changed my mind" });
      expect(details).toMatchObject({ phase: gate, by: "anna", reason: "changed my mind" });
      expect(await contents(tenant.objects)).toEqual(served);
      await expectSettledOn(bed, tenant, "root");
      // The fence was ready and the cluster claimed: all its controllers must be at work again.
      if (gate === "Cutover") await expectAlive(tenant);
    },
  );

  test.runIf(isThorough)("while a large copy runs, in the middle of it", async () => {
    const large = await makeTenant(bed, "root", await makeProvider(bed, "root"));
    await putConfigMaps(bed.store("root"), large.cluster, 10_000, { payload: "x".repeat(500) });
    const move = await startMove(bed, { logicalCluster: large.path, to: "shard-1" });
    const range = `/core/configmaps/${large.cluster}/default/bulk-5`;
    const { seen } = await nextChange(bed.store("shard-1"), ({ entry }) => entry.key.includes(range));
    await seen;
    await abort(move);
    expect(await failureOf(move.result())).toMatchObject({
      type: "Aborted",
      details: { phase: "CopySnapshot" },
    });
    await expectSettledOn(bed, large, "root");
  });

  test("by cancelling the workflow", async () => {
    const move = await startMove(bed, { logicalCluster: tenant.path, to: "shard-1", gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    await move.cancel();
    await expect(move.result()).rejects.toThrow("Workflow execution cancelled");
    await expectSettledOn(bed, tenant, "root");
  });
});

describe("abort after the switch", () => {
  test.each(isThorough ? AFTER : AFTER.slice(0, 1))(
    "before %s is refused, and the move goes on",
    async (gate) => {
      const from = (await runningOn(tenant)) === "root" ? "root" : "shard-1";
      const to = from === "root" ? "shard-1" : "root";
      const move = await startMove(bed, { logicalCluster: tenant.path, to, gates: [gate] });
      await untilGate(move, gate);
      // While it waits, no restart of the origin may make it take writes again.
      const { entry } = await bed.store(from).get(logicalClusterKey("/registry", tenant.cluster));
      expect(entry).toBeUndefined();
      const refused = await failureOf(abort(move));
      expect(refused.type).toBe("Refused");
      expect(refused.message).toMatch(/point of no return/);
      expect(await stateOf(move)).toMatchObject({ committed: true, abortable: false });
      await approve(move, gate);
      expect((await move.result()).verified).toBe(true);
      await expectSettledOn(bed, tenant, to);
    },
  );

  test("while the cutover runs is refused or comes too late", async () => {
    const from = await runningOn(tenant);
    const to = from === "root" ? "shard-1" : "root";
    const move = await startMove(bed, { logicalCluster: tenant.path, to });
    const fence = own(tenant.cluster).fence;
    const { seen } = await nextChange(bed.store(to), ({ entry }) => entry.key === fence);
    await seen;
    expect((await failureOf(abort(move))).type).toBe("Refused");
    expect((await move.result()).verified).toBe(true);
    await expectSettledOn(bed, tenant, to);
  });
});

test.runIf(isThorough)("a cluster whose moves were all aborted moves at last", async () => {
  const to = (await runningOn(tenant)) === "root" ? "shard-1" : "root";
  const served = await contents(tenant.objects);
  const move = await startMove(bed, { logicalCluster: tenant.path, to });
  await untilState(move, ({ admitted }) => admitted);
  await move.result();
  expect(await contents(tenant.objects)).toEqual(served);
  await expectSettledOn(bed, tenant, to);
  await runMove(bed, { logicalCluster: tenant.path, to: to === "root" ? "shard-1" : "root" });
});

async function runningOn({ cluster }: Tenant): Promise<"root" | "shard-1"> {
  const key = `/registry/core.kcp.io/logicalclusters/customresources/${cluster}/cluster`;
  return (await bed.store("root").get(key)).entry === undefined ? "shard-1" : "root";
}
