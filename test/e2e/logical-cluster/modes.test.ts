import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clusterPath } from "../../../kubernetes/kcp/logical-cluster.ts";
import { isFenced } from "../../../kubernetes/kcp/probe.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { raiseAlarm } from "../harness/alarm.ts";
import { Bed } from "../harness/bed.ts";
import { nextChange, own } from "../harness/keys.ts";
import { abort, approve, failureOf, runMove, startMove, untilGate, untilState } from "../harness/moves.ts";
import type { Move } from "../harness/moves.ts";
import { contents, expectAlive, makeProvider, makeTenant, makeWorkspace } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";

let bed: Bed;
let tenant: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
});
afterAll(async () => {
  await bed?.close();
});

const ANY_CLUSTER = clusterPath("*", "/api/v1/configmaps?limit=1").replace("%2A", "*");

describe("the inactive fence", () => {
  test.each(["shard-1", "root"] as const)(
    "moves to %s, and the origin serves all others again",
    async (to) => {
      const served = await contents(tenant.objects);
      const report = await runMove(bed, { logicalCluster: tenant.path, to, fence: "inactive" });
      expect(report).toMatchObject({ fence: "inactive", verified: true, to });
      expect(await contents(tenant.objects)).toEqual(served);
      await expectSettledOn(bed, tenant, to);
      for (const { api } of Object.values(bed.shards)) {
        expect(await api.request({ path: ANY_CLUSTER })).toMatchObject({ status: 200 });
      }
      await expectAlive(tenant);
    },
  );
});

describe("a fence budget that cannot be kept", () => {
  test("takes the fence off again, so that users go on and the move can be aborted", async () => {
    const { cluster } = tenant;
    const input = { logicalCluster: tenant.path, to: "shard-1", fenceBudgetMs: 200 };
    // The store that the switch is written to stands still from the moment in which the fence is asked for.
    const { seen } = await nextChange(
      bed.store("shard-1"),
      ({ entry, type }) => type === "Put" && entry.key === own(cluster).fence,
    );
    const move = await startMove(bed, input);
    await seen;
    {
      using _ = bed.freeze("etcd etcd-shard-1");
      const { api } = bed.shards.root;
      // Sooner than a call to a store is given up for want of an answer: the budget counts, whatever hangs.
      const soon = { timeout: 10_000, interval: 5 };
      await expect.poll(async () => await isFenced([api], cluster, "migration"), soon).toBe(true);
      const path = clusterPath(cluster, "/api/v1/namespaces/default");
      await expect.poll(async () => (await api.request({ path })).status, soon).toBe(200);
    }
    const { lastError } = await untilState(move, ({ comebacks }) => comebacks > 0);
    expect(lastError).toMatchObject({ type: "FenceBudgetExceeded" });
    await abort(move);
    expect(await failureOf(move.result())).toMatchObject({ type: "Aborted" });
    await expectSettledOn(bed, tenant, "root");
    await expectAlive(tenant);
  });
});

describe("a destination that is full when the switch is made", () => {
  // The alarm may come after the switch.
  test(
    "does not keep the origin from serving, and gets the cluster when it has room again",
    { retry: 2 },
    async () => {
      const { cluster } = await makeWorkspace(bed, "overflowing", "root");
      const { seen } = await nextChange(
        bed.store("shard-1"),
        ({ entry, type }) => type === "Put" && entry.key === own(cluster).fence,
      );
      const move = await startMove(bed, { logicalCluster: cluster, to: "shard-1" });
      await seen;
      {
        await using _ = await raiseAlarm(bed, "shard-1");
        const { lastError } = await untilState(move, ({ comebacks }) => comebacks > 0);
        expect(lastError).toMatchObject({ type: "FenceBudgetExceeded" });
        const path = clusterPath(cluster, "/api/v1/namespaces/default");
        expect((await bed.shards.root.api.request({ path })).status).toBe(200);
      }
      expect(await move.result()).toMatchObject({ verified: true, to: "shard-1" });
    },
  );
});

describe("a move whose workflow was terminated", () => {
  test("keeps others out by name, and goes on when it is reset", async () => {
    const move = await startMove(bed, { logicalCluster: tenant.path, to: "shard-1", gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    await move.terminate("by mistake");
    const refused = await failureOf(runMove(bed, { logicalCluster: tenant.path, to: "shard-1" }));
    expect(refused).toMatchObject({ type: "Refused" });
    expect(refused.message).toContain(`workflow reset --workflow-id ${move.workflowId}`);

    const { events } = await move.fetchHistory();
    const lastTask = events?.findLast(({ workflowTaskCompletedEventAttributes: done }) => done);
    const { runId } = await bed.client.workflowService.resetWorkflowExecution({
      namespace: bed.testbed.temporal.namespace,
      workflowExecution: { workflowId: move.workflowId },
      workflowTaskFinishEventId: lastTask!.eventId!,
      reason: "unfinished",
      requestId: crypto.randomUUID(),
    });
    const again: Move = bed.client.workflow.getHandle(move.workflowId, runId);
    await untilGate(again, "Cutover");
    await approve(again, "Cutover");
    expect(await again.result()).toMatchObject({ verified: true, to: "shard-1" });
    await expectSettledOn(bed, tenant, "shard-1");
  });
});
