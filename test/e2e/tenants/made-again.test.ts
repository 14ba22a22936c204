import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Bed } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { approve, runMove, startMove, untilGate, untilState } from "../harness/moves.ts";
import { Objects, configMap } from "../harness/objects.ts";
import {
  APIS,
  EXPORTED,
  WIDGETS,
  bindWidgets,
  contents,
  makeProvider,
  makeTenant,
  makeWorkspace,
} from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";
import { startWebhook } from "../harness/webhook.ts";
import { API, makeNamespace } from "./oddity.ts";

let bed: Bed;
beforeAll(async () => {
  bed = await Bed.open();
});
afterAll(async () => {
  await bed?.close();
});

/** How long the deleter is kept at work once the Cutover has begun: longer than one takes without waiting for it. */
const AT_WORK_MS = 5_000;

const AGAIN = `${API}/namespaces/again`;

async function makeAgain(objects: Objects, content: string): Promise<void> {
  await makeNamespace(objects, "again");
  await objects.create(`${AGAIN}/configmaps`, configMap(content, {}));
}

async function objectsOfWorkspace(shard: ShardName): Promise<Objects> {
  const { cluster } = await makeWorkspace(bed, "again", shard);
  return new Objects(bed.frontProxy, cluster);
}

test("a namespace that is deleted and made again: no fence while the destination's deleter may be emptying the first one", async () => {
  const [objects, beside] = await Promise.all([objectsOfWorkspace("root"), objectsOfWorkspace("shard-1")]);
  await makeAgain(objects, "first");
  await makeAgain(beside, "held");

  // One deleter works for all clusters of the shard, and says of none whose namespace it is at.
  const asked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<true>();
  await using _ = await startWebhook(beside, "DELETE", async ({ oldObject }) => {
    if (oldObject?.metadata.name !== "held") return true;
    asked.resolve();
    return await released.promise;
  });

  const move = await startMove(bed, { logicalCluster: objects.cluster, to: "shard-1", gates: ["Cutover"] });
  await untilGate(move, "Cutover");
  await objects.remove(AGAIN);
  await objects.untilGone(AGAIN);
  await beside.remove(AGAIN);
  await asked.promise;
  await approve(move, "Cutover");
  await untilState(move, ({ phase, status }) => phase === "Cutover" && status === "running");
  await delay(AT_WORK_MS);
  await makeAgain(objects, "second");
  const releasedAt = Date.now();
  released.resolve(true);

  const { verified, switched } = await move.result();
  expect(verified).toBe(true);
  expect(switched!.fenceAt).toBeGreaterThan(releasedAt);
  const { items } = await objects.list(`${AGAIN}/configmaps`);
  expect(items.map(({ metadata }) => metadata.name).toSorted()).toEqual(["kube-root-ca.crt", "second"]);
});

test.runIf(isThorough)(
  "an APIBinding that was made again under another name: what it has bound is emptied by nobody",
  async () => {
    const provider = await makeProvider(bed, "root");
    const { cluster, objects } = await makeTenant(bed, "root", provider);
    await objects.remove(`${APIS}/apibindings/widgets`);
    await objects.untilGone(`${APIS}/apibindings/widgets`);
    await bindWidgets(objects, "renamed", provider);
    for (const name of ["alpha", "beta"]) {
      await objects.create(WIDGETS, { apiVersion: `${EXPORTED}/v1`, kind: "Widget", metadata: { name } });
    }
    const before = await contents(objects);

    expect(await runMove(bed, { logicalCluster: cluster, to: "shard-1" })).toMatchObject({ verified: true });
    expect(await contents(objects)).toEqual(before);
  },
);
