import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "../../../sites/config.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { Bed } from "../harness/bed.ts";
import { putConfigMaps } from "../harness/bulk.ts";
import { historyText, startMove } from "../harness/moves.ts";
import { MARKER, makeProvider, makeTenant } from "../harness/tenant.ts";

let bed: Bed;
beforeAll(async () => {
  bed = await Bed.open();
});
afterAll(async () => {
  await bed?.close();
});

/** Moves a workspace with this many objects. @returns the history's events, as one text. */
async function historyOf(objects: number): Promise<Awaited<ReturnType<typeof historyText>>> {
  const tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
  await putConfigMaps(bed.store("root"), tenant.cluster, objects, { payload: MARKER });
  const move = await startMove(bed, { logicalCluster: tenant.path, to: "shard-1" });
  const { keys, verified } = await move.result();
  expect(verified).toBe(true);
  expect(keys).toBeGreaterThan(objects);
  await expectSettledOn(bed, tenant, "shard-1");
  return await historyText(move);
}

test("the history of a move does not grow with its data, and holds neither objects nor secrets; nor does a worker's log", async () => {
  const small = await historyOf(500);
  const large = await historyOf(3_000);
  expect(large.events).toBeLessThan(150);
  // A longer copy reports more often; each report is a signal and its workflow task. What it does are as many steps.
  expect(large.activities - small.activities).toBeLessThan(6);
  const keyFile = loadConfig(bed.testbed.rehomeConfig).kcp!.shards["root"]!.etcd.tls!.key!;
  const key = readFileSync(keyFile, "utf8").split("\n")[1]!;
  const log = readFileSync(bed.worker.spec.logFile, "utf8");
  for (const [text, tells] of [
    [small.text, "root:tenant-"],
    [large.text, "root:tenant-"],
    [log, "phase started"],
  ] as const) {
    expect(text.includes(tells)).toBe(true);
    const leaked = [MARKER, key, "PRIVATE KEY", "CERTIFICATE"].filter((secret) => text.includes(secret));
    expect(leaked).toEqual([]);
  }
});
