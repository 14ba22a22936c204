import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clusterPath } from "../../../kubernetes/kcp/logical-cluster.ts";
import { isFenced } from "../../../kubernetes/kcp/probe.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { raiseAlarm } from "../harness/alarm.ts";
import { Bed, other } from "../harness/bed.ts";
import { nextChange, own } from "../harness/keys.ts";
import { abort, approve, failureOf, runMove, startMove, untilGate, untilState } from "../harness/moves.ts";
import type { Move } from "../harness/moves.ts";
import { CONFIG_MAPS, configMap } from "../harness/objects.ts";
import { makeRobot } from "../harness/robot.ts";
import { writeToBothShards } from "../harness/shard-writers.ts";
import { contents, expectAlive, makeProvider, makeTenant, makeWorkspace } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";

type Event = NonNullable<Awaited<ReturnType<Move["fetchHistory"]>>["events"]>[number];

let bed: Bed;
let tenant: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
});
afterAll(async () => {
  await bed?.close();
});

/** Names in both orders: keys are deleted in the order of their names. */
const OWNED = Array.from({ length: 10 }, (_, i) => [`a-owned-${i}`, `z-owned-${i}`]).flat();

async function makeOwned({ objects }: Tenant): Promise<void> {
  const { metadata } = await objects.create(CONFIG_MAPS, configMap("owner", {}));
  const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: metadata.uid }];
  for (const name of OWNED) {
    await objects.create(CONFIG_MAPS, { metadata: { name, ownerReferences } });
  }
}

const ANY_CLUSTER = clusterPath("*", "/api/v1/configmaps?limit=1").replace("%2A", "*");

describe("the inactive fence, and a move back", () => {
  let token: string;
  beforeAll(async () => {
    token = await makeRobot(tenant.objects);
    await makeOwned(tenant);
  });
  const ways = [
    ["shard-1", "inactive"],
    ["root", "migration"],
  ] as const;
  test.each(isThorough ? ways : ways.slice(0, 1))(
    "moves to %s with the fence %s, and the origin serves all others again",
    async (to, fence) => {
      const served = await contents(tenant.objects);
      const writers = writeToBothShards(bed, tenant, token);
      const report = await runMove(bed, { logicalCluster: tenant.path, to, fence });
      expect(report).toMatchObject({ fence, verified: true, to, cleaned: { conflicts: [] } });
      await writers.expectOneAfterTheOther(other(to), to);
      const now = await contents(tenant.objects);
      for (const [path, object] of served) expect(now.get(path)).toEqual(object);
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
    const patient = await makeTenant(bed, "root", await makeProvider(bed, "root"));
    const { cluster } = patient;
    const input = { logicalCluster: cluster, to: "shard-1", fenceBudgetMs: 2_000 };
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
    expect(lastError?.message).toContain("in 2000 ms");
    await abort(move);
    expect(await failureOf(move.result())).toMatchObject({ type: "Aborted" });
    await expectSettledOn(bed, patient, "root");
    await expectAlive(patient);
  });
});

describe("a destination that is full when the switch is made", () => {
  test.runIf(isThorough)(
    "does not keep the origin from serving, and gets the cluster when it has room again",
    async () => {
      const { cluster } = await makeWorkspace(bed, "overflowing", "root");
      const { seen } = await nextChange(
        bed.store("shard-1"),
        ({ entry, type }) => type === "Put" && entry.key === own(cluster).fence,
      );
      const move = await startMove(bed, { logicalCluster: cluster, to: "shard-1" });
      await seen;
      await bed.worker.freeze();
      {
        await using _ = await raiseAlarm(bed, "shard-1");
        bed.worker.thaw();
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
  test.runIf(isThorough)("keeps others out by name, and goes on when it is reset", async () => {
    const move = await startMove(bed, { logicalCluster: tenant.path, to: "shard-1", gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    await move.terminate("by mistake");
    const refused = await failureOf(runMove(bed, { logicalCluster: tenant.path, to: "shard-1" }));
    expect(refused).toMatchObject({ type: "Refused" });
    expect(refused.message).toContain(`workflow reset --workflow-id ${move.workflowId}`);

    const { events } = await move.fetchHistory();
    const lastTask = events?.findLast(({ workflowTaskCompletedEventAttributes: done }) => done);
    const again = await reset(move, lastTask!.eventId!);
    await untilGate(again, "Cutover");
    await approve(again, "Cutover");
    expect(await again.result()).toMatchObject({ verified: true, to: "shard-1" });
    await expectSettledOn(bed, tenant, "shard-1");
  });
});

test.runIf(isThorough)(
  "a move that is reset to before its copy and then aborted undoes also what its history knows nothing of",
  async () => {
    const moved = await makeTenant(bed, "root", await makeProvider(bed, "root"));
    const move = await startMove(bed, { logicalCluster: moved.cluster, to: "shard-1", gates: ["Cutover"] });
    // The fence is ready, and the cluster claimed for it.
    await untilGate(move, "Cutover");
    const { events } = await move.fetchHistory();
    const copy = events?.find(
      ({ activityTaskScheduledEventAttributes: scheduled }) =>
        scheduled?.activityType?.name === "copySnapshot",
    );
    const again = await reset(
      move,
      copy!.activityTaskScheduledEventAttributes!.workflowTaskCompletedEventId!,
    );
    await abort(again);
    const { type, details } = await failureOf(again.result());
    expect(type).toBe("Aborted");
    // The abort may come before the copy begins again.
    expect(details?.phase).toMatch(/^(AlignRevisions|CopySnapshot|Tail)$/);
    await expectSettledOn(bed, moved, "root");
    await expectAlive(moved);
  },
);

test.runIf(isThorough)(
  "what others own is left alone by the garbage collector of a shard where copies of it were deleted before",
  async () => {
    // By moves from there, with either fence, and by one back that is aborted while the shard refuses all questions.
    const input = { logicalCluster: tenant.path, to: "root" };
    const move = await startMove(bed, { ...input, gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    await abort(move);
    expect(await failureOf(move.result())).toMatchObject({ type: "Aborted" });
    await runMove(bed, input);
    await expectSettledOn(bed, tenant, "root");
    await expectAlive(tenant);
    const { items } = await tenant.objects.list(CONFIG_MAPS);
    expect(items.map(({ metadata }) => metadata.name)).toEqual(expect.arrayContaining(["owner", ...OWNED]));
  },
);

/** @param task number of the event that ended the workflow task which is to be done again. */
async function reset(move: Move, task: NonNullable<Event["eventId"]>): Promise<Move> {
  const { runId } = await bed.client.workflowService.resetWorkflowExecution({
    namespace: bed.testbed.temporal.namespace,
    workflowExecution: { workflowId: move.workflowId },
    workflowTaskFinishEventId: task,
    reason: "unfinished",
    requestId: crypto.randomUUID(),
  });
  return bed.client.workflow.getHandle(move.workflowId, runId);
}
