import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pauseUpdate, resumeUpdate } from "../../../workflows/engine/messages.ts";
import { stepOf } from "../../../workflows/engine/state.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { Bed } from "../harness/bed.ts";
import { approve, runMove, startMove, stateOf, untilGate, untilState } from "../harness/moves.ts";
import { CONFIG_MAPS, configMap } from "../harness/objects.ts";
import { makeProvider, makeTenant } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";

/** Each move keeps the revision of its destination above that of its origin, and here these are the same two shards. */
let bed: Bed;
let there: Tenant;
let back: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  const provider = await makeProvider(bed, "root");
  there = await makeTenant(bed, "root", provider);
  back = await makeTenant(bed, "shard-1", provider);
});
afterAll(async () => {
  await bed?.close();
});

const WRITE_EVERY_MS = 200;

/** Changes the tenant's objects until disposed. What a fence refuses is none of this test's. */
function keepBusy({ objects }: Tenant): AsyncDisposable {
  const stop = new AbortController();
  const write = async () => {
    for (let count = 0; !stop.signal.aborted; count++) {
      const name = `busy-${count % 10}`;
      await objects.create(CONFIG_MAPS, configMap(name, {})).catch(() => undefined);
      await objects.patch(`${CONFIG_MAPS}/${name}`, { data: { count: `${count}` } }).catch(() => undefined);
      if (count % 3 === 0) await objects.remove(`${CONFIG_MAPS}/${name}`).catch(() => undefined);
      await delay(WRITE_EVERY_MS, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  };
  const written = write();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await written;
    },
  };
}

test("a move that waits for a person, its tenant being busy, holds up none in the opposite direction", async () => {
  await using _ = keepBusy(there);
  const waiting = await startMove(bed, {
    logicalCluster: there.path,
    to: "shard-1",
    gates: ["Cutover"],
  });
  await untilGate(waiting, "Cutover");
  expect(await runMove(bed, { logicalCluster: back.path, to: "root" })).toMatchObject({ verified: true });
  await approve(waiting, "Cutover");
  expect(await waiting.result()).toMatchObject({ verified: true });
});

test.runIf(isThorough)(
  "two moves in opposite directions, both tenants being busy, get through side by side",
  async () => {
    await using busy = new AsyncDisposableStack();
    for (const tenant of [there, back]) busy.use(keepBusy(tenant));
    const reports = await Promise.all([
      runMove(bed, { logicalCluster: there.path, to: "root" }),
      runMove(bed, { logicalCluster: back.path, to: "shard-1" }),
    ]);
    for (const report of reports) expect(report).toMatchObject({ verified: true });
    // What is served is compared by reading it twice.
    await busy.disposeAsync();
    await expectSettledOn(bed, there, "root");
    await expectSettledOn(bed, back, "shard-1");
  },
);

test.runIf(isThorough)(
  "a move that begins does not send back one in the opposite direction that is about to switch",
  async () => {
    const ahead = await startMove(bed, { logicalCluster: there.path, to: "shard-1", gates: ["Tail"] });
    await untilGate(ahead, "Tail");
    await approve(ahead, "Tail");
    await ahead.executeUpdate(pauseUpdate, { args: [{ by: "anna" }] });
    await untilState(
      ahead,
      (state) => state.status === "paused" && stepOf(state, "Verify")?.state === "pending",
    );
    const behind = await startMove(bed, { logicalCluster: back.path, to: "root" });
    await untilState(behind, (state) => state.phase === "Tail");
    await ahead.executeUpdate(resumeUpdate, { args: [{ by: "anna" }] });
    for (const move of [ahead, behind]) expect(await move.result()).toMatchObject({ verified: true });
    expect(stepOf(await stateOf(ahead), "Tail")?.runs).toBe(1);
  },
);
