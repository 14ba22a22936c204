import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logicalClusterKey } from "../../../etcd/keys.ts";
import { put, remove } from "../../../etcd/store.ts";
import { ANNOTATION, annotate, logicalClusterPath } from "../../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import { resumeUpdate } from "../../../workflows/engine/messages.ts";
import { expectNoTrace, expectSettledOn } from "../harness/aftermath.ts";
import { raiseAlarm } from "../harness/alarm.ts";
import { Bed } from "../harness/bed.ts";
import { keysOf, nextChange, own } from "../harness/keys.ts";
import { abort, approve, failureOf, runMove, startMove, untilGate, untilState } from "../harness/moves.ts";
import type { Move } from "../harness/moves.ts";
import { CONFIG_MAPS, Objects, configMap } from "../harness/objects.ts";
import { GROUP, contents, makeProvider, makeTenant, makeWorkspace } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";
import { ADMISSION } from "../harness/webhook.ts";
import type { Workspace } from "../../../testbed/workspaces.ts";

/** What kcp's users have asked about its own migration (kcp issue 4206), and what is refused at the door. */
let bed: Bed;
let provider: Workspace;
beforeAll(async () => {
  bed = await Bed.open();
  provider = await makeProvider(bed, "root");
});
afterAll(async () => {
  await bed?.close();
});

const BEFORE_THE_SWITCH = ["CopySnapshot", "Cutover"];
const AFTER_THE_SWITCH = [
  ["AwaitRouting", "migration"],
  ["AwaitRouting", "inactive"],
  ["OriginCleanup", "migration"],
  ["Finalize", "migration"],
] as const;
const WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces";

/** Neither shard has a key of the cluster, and nothing of the move is left. */
async function expectGone({ name, cluster }: Workspace): Promise<void> {
  await new Objects(bed.frontProxy, "root").untilGone(`${WORKSPACES}/${name}`);
  await expectNoTrace(bed, cluster);
}

/** Who watches all clusters of a shard is not kept from it. */
async function expectAllServed(): Promise<void> {
  for (const { api } of Object.values(bed.shards))
    expect((await api.request({ path: "/clusters/*/api/v1/configmaps?limit=1" })).status).toBe(200);
}

/** Without a CRD: kcp v0.32.3 leaves objects of it behind when it goes together with its workspace, moved or not. */
async function makeSmall(): Promise<Workspace> {
  const workspace = await makeWorkspace(bed, "deleted", "root");
  await new Objects(bed.frontProxy, workspace.cluster).create(CONFIG_MAPS, configMap("some", {}));
  return workspace;
}

/** kcp has seen at the origin that the workspace goes. */
async function isLeaving({ cluster }: Workspace): Promise<boolean> {
  const { entry } = await bed.store("root").get(logicalClusterKey("/registry", cluster));
  return entry?.value.includes("deletionTimestamp") ?? true;
}

/** Starts a move of a small workspace, deletes that while the move stands before a phase, and lets the move go on. */
async function deleteBefore(
  gate: string,
  fence = "migration",
): Promise<{ move: Move; workspace: Workspace }> {
  const workspace = await makeSmall();
  const input = { logicalCluster: workspace.cluster, to: "shard-1", gates: [gate], fence };
  const move = await startMove(bed, input);
  await untilGate(move, gate);
  await new Objects(bed.frontProxy, "root").remove(`${WORKSPACES}/${workspace.name}`);
  if (BEFORE_THE_SWITCH.includes(gate)) {
    await expect.poll(async () => await isLeaving(workspace)).toBe(true);
  }
  await approve(move, gate);
  return { move, workspace };
}

describe("a workspace that is deleted while it moves", () => {
  test.each(isThorough ? BEFORE_THE_SWITCH : BEFORE_THE_SWITCH.slice(-1))(
    "before %s: it goes, and the move says why it failed",
    async (gate) => {
      const { move, workspace } = await deleteBefore(gate);
      const failed = await failureOf(move.result());
      expect(failed).toMatchObject({ type: "Refused" });
      expect(failed.message).toMatch(/was deleted while it moved/);
      await expectGone(workspace);
    },
  );

  test.runIf(isThorough).each(["migration", "inactive"])(
    "while the fence %s is about to go up: it goes, and nobody else is kept from watching",
    async (fence) => {
      const workspace = await makeSmall();
      const { cluster, name } = workspace;
      const input = { logicalCluster: cluster, to: "shard-1", gates: ["Cutover"], fence };
      const move = await startMove(bed, input);
      await untilGate(move, "Cutover");
      // The Cutover begins with its token, after which it looks whether the cluster is being deleted.
      const { seen } = await nextChange(
        bed.store("shard-1"),
        ({ entry, type }) => type === "Put" && entry.key === own(cluster).lock,
      );
      await approve(move, "Cutover");
      await seen;
      await new Objects(bed.frontProxy, "root").remove(`${WORKSPACES}/${name}`);
      const ended = await move.result().catch(async () => await failureOf(move.result()));
      expect([{ verified: true }, { type: "Refused" }]).toContainEqual(
        "verified" in ended ? { verified: ended.verified } : { type: ended.type },
      );
      await expectGone(workspace);
      await expectAllServed();
    },
  );

  test.runIf(isThorough)(
    "in the fence inactive of a worker that has died: it goes, and nobody else is kept from watching",
    async () => {
      const workspace = await makeSmall();
      const { cluster, name } = workspace;
      const input = { logicalCluster: cluster, to: "shard-1", gates: ["Cutover"], fence: "inactive" };
      const move = await startMove(bed, input);
      await untilGate(move, "Cutover");
      const { seen } = await nextChange(
        bed.store("root"),
        ({ entry }) =>
          entry.key === logicalClusterKey("/registry", cluster) &&
          entry.value.includes(`"${ANNOTATION.inactive}":"true"`),
      );
      await approve(move, "Cutover");
      await seen;
      await bed.withoutWorker(async () => {
        await new Objects(bed.frontProxy, "root").remove(`${WORKSPACES}/${name}`);
        // kcp does this itself when it sees the workspace go, for which it needs luck here: the fence cuts the watch that it sees it by.
        await bed.shards.root.api.json({ method: "DELETE", path: logicalClusterPath(cluster) });
        expect(await isLeaving(workspace)).toBe(true);
      });
      expect(await failureOf(move.result())).toMatchObject({ type: "Refused" });
      await expectGone(workspace);
      await expectAllServed();
    },
  );

  test.each(isThorough ? AFTER_THE_SWITCH : AFTER_THE_SWITCH.slice(0, 1))(
    "before %s, after the switch, with the %s fence: it goes from both shards",
    async (gate, fence) => {
      const { move, workspace } = await deleteBefore(gate, fence);
      expect(await move.result()).toMatchObject({ verified: true, to: "shard-1" });
      await expectGone(workspace);
      await expectAllServed();
    },
  );
});

describe("an id that appears at the destination while its cluster moves", () => {
  test("is neither overwritten nor deleted, and the origin serves on", async () => {
    const tenant = await makeTenant(bed, "root", provider);
    const served = await contents(tenant.objects);
    const input = { logicalCluster: tenant.cluster, to: "shard-1", gates: ["Cutover"] };
    const move = await startMove(bed, input);
    await untilGate(move, "Cutover");
    const key = logicalClusterKey("/registry", tenant.cluster);
    const { entry } = await bed.store("root").get(key);
    const stranger = JSON.parse(entry!.value.toString()) as { metadata: Record<string, unknown> };
    stranger.metadata["uid"] = "00000000-0000-4000-8000-000000000000";
    await bed.store("shard-1").transact([], [put(key, JSON.stringify(stranger))]);
    await approve(move, "Cutover");
    const { lastError } = await untilState(move, ({ status }) => status === "needs attention");
    expect(lastError).toMatchObject({ type: "Conflict" });
    const there = (await bed.store("shard-1").get(key)).entry?.value.toString();
    expect(there).toContain("00000000-0000-4000-8000-000000000000");
    const atOrigin = new Objects(bed.shards.root.api, tenant.cluster);
    expect(await contents(atOrigin)).toEqual(served);

    await bed.store("shard-1").transact([], [remove(key)]);
    await move.executeUpdate(resumeUpdate, { args: [{ by: "anna" }] });
    expect(await failureOf(move.result())).toMatchObject({ type: "Conflict" });
    await expect.poll(async () => await keysOf(bed.store("shard-1"), tenant.cluster)).toEqual([]);
    expect(await contents(atOrigin)).toEqual(served);
  });
});

describe("an object that the origin's API server could just write", () => {
  test("is named when a move's transaction is too large for it, and nothing is left behind", async () => {
    const tenant = await makeTenant(bed, "root", provider);
    const key = `/registry/${GROUP}/gadgets/customresources/${tenant.cluster}/default/colossus`;
    const metadata = { name: "colossus", namespace: "default", uid: randomUUID() };
    const of = (filler: string) =>
      JSON.stringify({ apiVersion: `${GROUP}/v1`, kind: "Gadget", metadata, spec: { filler } });
    // etcd takes 1.5 MiB for key, value and what is around them.
    const value = of("x".repeat(1.5 * 2 ** 20 - of("").length - key.length - 100));
    await bed.store("root").transact([], [put(key, value)]);
    const failed = await failureOf(runMove(bed, { logicalCluster: tenant.path, to: "shard-1" }));
    expect(failed).toMatchObject({ type: "Refused", details: { phase: "CopySnapshot" } });
    expect(failed.message).toContain(`${key} (${value.length} bytes)`);
    expect(failed.message).toContain("--max-request-bytes");
    await bed.store("root").transact([], [remove(key)]);
    await expectSettledOn(bed, tenant, "root");
  });
});

describe("a destination whose etcd is full", () => {
  test("can be left: all that was copied is deleted, and the origin serves on", async () => {
    const tenant = await makeTenant(bed, "root", provider);
    const served = await contents(tenant.objects);
    const input = { logicalCluster: tenant.cluster, to: "shard-1", gates: ["Verify"] };
    const move = await startMove(bed, input);
    await untilGate(move, "Verify");
    expect(await keysOf(bed.store("shard-1"), tenant.cluster)).not.toEqual([]);
    {
      await using _ = await raiseAlarm(bed, "shard-1");
      await abort(move);
      expect(await failureOf(move.result())).toMatchObject({ type: "Aborted" });
      expect(await keysOf(bed.store("shard-1"), tenant.cluster)).toEqual([]);
    }
    expect(await contents(tenant.objects)).toEqual(served);
    await expectSettledOn(bed, tenant, "root");
  });
});

describe("a workspace that is suspended while it moves", () => {
  test.each(["migration", "inactive"])("is not made to serve again, with the %s fence", async (fence) => {
    const { cluster } = await makeWorkspace(bed, "suspended", "root");
    const input = { logicalCluster: cluster, to: "shard-1", gates: ["Cutover"], fence };
    const move = await startMove(bed, input);
    await untilGate(move, "Cutover");
    const { api } = bed.shards.root;
    await annotate(api, cluster, ANNOTATION.inactive, "true");
    await approve(move, "Cutover");
    const failed = await failureOf(move.result());
    expect(failed).toMatchObject({ type: "Refused" });
    expect(failed.message).toContain("was marked inactive while it moved");
    const { metadata } = await api.json<LogicalCluster>({ path: logicalClusterPath(cluster) });
    expect(metadata.annotations).toMatchObject({ [ANNOTATION.inactive]: "true" });
    await annotate(api, cluster, ANNOTATION.inactive, null);
    const everywhere = "/clusters/*/api/v1/configmaps?limit=1";
    await expect.poll(async () => (await api.request({ path: everywhere })).status).toBe(200);
  });
});

const onEverything = { apiGroups: ["*"], apiVersions: ["*"], operations: ["UPDATE"], resources: ["*/*"] };

/** Rules of a tenant that let nobody change anything, kcp's own controllers included. */
const STUBBORN: readonly (readonly [what: string, says: RegExp, rules: readonly [string, object][]])[] = [
  [
    "a policy that denies every change",
    /ValidatingAdmissionPolicy 'stubborn' .*denied/,
    [
      [
        "validatingadmissionpolicies",
        {
          kind: "ValidatingAdmissionPolicy",
          spec: {
            matchConstraints: { resourceRules: [onEverything] },
            validations: [{ expression: "false" }],
          },
        },
      ],
      [
        "validatingadmissionpolicybindings",
        {
          kind: "ValidatingAdmissionPolicyBinding",
          spec: { policyName: "stubborn", validationActions: ["Deny"] },
        },
      ],
    ],
  ],
  [
    "a webhook for everything that is dead",
    /failed calling webhook "stubborn.rehome.test"/,
    [
      [
        "validatingwebhookconfigurations",
        {
          kind: "ValidatingWebhookConfiguration",
          webhooks: [
            {
              name: "stubborn.rehome.test",
              // A port that nobody listens to.
              clientConfig: { url: "https://127.0.0.1:1/" },
              rules: [onEverything],
              admissionReviewVersions: ["v1"],
              sideEffects: "None",
            },
          ],
        },
      ],
    ],
  ],
];

describe("refused in Preflight", () => {
  test.each(STUBBORN)("a cluster with %s", async (_what, says, rules) => {
    const { cluster } = await makeWorkspace(bed, "stubborn", "root");
    const objects = new Objects(bed.frontProxy, cluster);
    await objects.create(CONFIG_MAPS, configMap("some", {}));
    for (const [collection, rule] of rules) {
      await objects.create(`${ADMISSION}/${collection}`, {
        apiVersion: "admissionregistration.k8s.io/v1",
        metadata: { name: "stubborn" },
        ...rule,
      });
    }
    const some = objects.path(`${CONFIG_MAPS}/some`);
    const change = { method: "PATCH", path: some, body: { data: { touched: "" } } } as const;
    const answered = async () => (await objects.server.request(change)).status;
    await expect.poll(answered).not.toBe(200);
    const failed = await failureOf(runMove(bed, { logicalCluster: cluster, to: "shard-1" }));
    expect(failed).toMatchObject({ type: "Refused", details: { phase: "Preflight" } });
    expect(failed.message).toMatch(says);
    expect(failed.message).toContain("leave logicalclusters.core.kcp.io out of the rule");

    for (const [collection] of rules) await objects.remove(`${ADMISSION}/${collection}/stubborn`);
    await expect.poll(answered).toBe(200);
    expect(await runMove(bed, { logicalCluster: cluster, to: "shard-1" })).toMatchObject({ verified: true });
  });

  test.each([
    ["CachedResource", "cache.kcp.io/cachedresources/customresources", "some", "delete CachedResource"],
  ])("a cluster with a %s", async (kind, family, name, advice) => {
    const tenant = await makeTenant(bed, "root", provider);
    const key = `/registry/${family}/${tenant.cluster}/${name}`;
    const object = { apiVersion: "cache.kcp.io/v1alpha1", kind, metadata: { name, uid: "u" }, spec: {} };
    await bed.store("root").transact([], [put(key, JSON.stringify(object))]);
    const failed = await failureOf(runMove(bed, { logicalCluster: tenant.path, to: "shard-1" }));
    expect(failed).toMatchObject({ type: "Refused", details: { phase: "Preflight" } });
    expect(failed.message).toContain(name);
    expect(failed.message).toContain(advice);
    await bed.store("root").transact([], [remove(key)]);
    await runMove(bed, { logicalCluster: tenant.path, to: "shard-1" });
    await expectSettledOn(bed, tenant, "shard-1");
  });
});
