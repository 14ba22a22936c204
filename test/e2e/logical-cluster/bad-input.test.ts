import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MockActivityEnvironment } from "@temporalio/testing";
import { ApplicationFailure } from "@temporalio/common";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createActivities } from "../../../activities/index.ts";
import type { LogicalClusterActivities } from "../../../activities/logical-cluster/types.ts";
import { put, remove } from "../../../etcd/store.ts";
import { loadConfig } from "../../../sites/config.ts";
import type { KcpConfig, SitesConfig } from "../../../sites/config.ts";
import { Sites } from "../../../sites/sites.ts";
import { CertificateAuthority } from "../../../testbed/certificates.ts";
import { freePort } from "../../../testbed/ports.ts";
import { Bed } from "../harness/bed.ts";
import { snapshots, touched, untilSettled } from "../harness/keys.ts";
import type { Snapshot } from "../harness/keys.ts";
import { abort, failureOf, startMove, untilGate } from "../harness/moves.ts";
import { makeWorkspace } from "../harness/tenant.ts";
import type { Workspace } from "../../../testbed/workspaces.ts";

let bed: Bed;
let workspace: Workspace;
let dir: string;
let before: Record<"root" | "shard-1", Snapshot>;
beforeAll(async () => {
  bed = await Bed.open();
  workspace = await makeWorkspace(bed, "refused", "root");
  dir = await mkdtemp(join(tmpdir(), "rehome-bad-input-"));
  await untilSettled(bed);
  before = await snapshots(bed);
});
afterAll(async () => {
  await bed?.close();
  await rm(dir, { recursive: true, force: true });
});

/** kcp itself still writes here for a while after other tests, whose clusters have come and gone. */
function isAftermath(key: string): boolean {
  const isObject = key.includes("/core.kcp.io/logicalclusters/") && !key.includes(`/${workspace.cluster}/`);
  // Half an hour after nobody binds them any more (kcp v0.32.3, pkg/reconciler/apis/crdcleanup).
  const isUnbound = key.includes("/customresourcedefinitions/system:bound-crds/");
  // What a binding is bound to, told again whenever that or what serves it changes.
  const isBinding = key.includes("/apis.kcp.io/apibindings/");
  return isObject || isUnbound || isBinding || key.includes("/apis.kcp.io/apiexportendpointslices/");
}

async function expectNothingWritten(): Promise<void> {
  const after = await snapshots(bed);
  for (const shard of ["root", "shard-1"] as const)
    expect(touched(before[shard], after[shard], isAftermath)).toEqual([]);
}

/** Each part of a message that a person needs: the field, the value, and what to do. */
async function expectRefused(
  input: unknown,
  type: string,
  ...words: readonly (string | RegExp)[]
): Promise<void> {
  const failed = await failureOf((await startMove(bed, input)).result());
  expect(failed).toMatchObject({ type, nonRetryable: true, details: { phase: "Preflight" } });
  for (const word of words) expect(failed.message).toMatch(word);
}

describe("input of a wrong shape", () => {
  test.each<[string, unknown, ...(string | RegExp)[]]>([
    ["a text", "root:team-a", /input: .*expected object/, 'found: "root:team-a"', "give for example"],
    ["null", null, /input: .*expected object/, "found: null"],
    ["nothing at all", undefined, /input: .*expected object/, /found: (nothing|null)/],
    ["a number", 7, "found: 7"],
    ["a list", [], /input: .*expected object/, "found: []"],
    ["no cluster", { to: "shard-1" }, "logicalCluster: "],
    ["no destination", { logicalCluster: "root:team-a" }, "to: "],
    ["a field that does not exist", { logicalCluster: "root:a", to: "shard-1", form: "root" }, /"form"/],
    [
      "a cluster that is no name",
      { logicalCluster: "Root/Team A", to: "shard-1" },
      "logicalCluster: ",
      /give a workspace path/,
    ],
    ["a site that is no name", { logicalCluster: "root:a", to: "shard_1" }, "to: ", /a site name is/],
    [
      "a gate that is no phase",
      { logicalCluster: "root:a", to: "shard-1", gates: ["Copy"] },
      "gates.0: ",
      "CopySnapshot",
    ],
    [
      "a fence that does not exist",
      { logicalCluster: "root:a", to: "shard-1", fence: "hard" },
      "fence: ",
      "inactive",
    ],
    [
      "a budget below the least",
      { logicalCluster: "root:a", to: "shard-1", fenceBudgetMs: 1 },
      "fenceBudgetMs: ",
      "200",
    ],
    ["a text for a flag", { logicalCluster: "root:a", to: "shard-1", dryRun: "yes" }, "dryRun: ", "boolean"],
  ])("%s is refused", async (_what, input, ...words) => {
    await expectRefused(input, "InvalidInput", ...words);
  });
});

describe("input that fits no cluster or shard", () => {
  test("an unknown shard is refused with the known ones", async () => {
    const input = { logicalCluster: workspace.path, to: "shard-9" };
    await expectRefused(input, "InvalidInput", 'to: no shard "shard-9"', "root, shard-1", "rehome.yaml");
    const from = { logicalCluster: workspace.path, to: "shard-1", from: "shard-9" };
    await expectRefused(from, "InvalidInput", 'from: no shard "shard-9"', "root, shard-1");
  });

  test("a time limit that the fence inactive cannot keep", async () => {
    const timeouts = { awaitRouting: { attemptMs: 60_000 } };
    const input = { logicalCluster: workspace.path, to: "shard-1", fence: "inactive", timeouts };
    await expectRefused(input, "InvalidInput", "timeouts.awaitRouting.attemptMs: 60000", "120000 or more");
  });

  test.each([
    ["an id", "0000000000000000"],
    ["a path", "root:nobody:here"],
  ])("%s that nobody has", async (_what, name) => {
    await expectRefused(
      { logicalCluster: name, to: "shard-1" },
      "Refused",
      "logicalCluster: ",
      name,
      "does not resolve",
      "check the path",
    );
  });

  test.each([
    ["root", "Refused"],
    ["system:admin", "Refused"],
    ["user:anna", "Refused"],
    ["system:bound-crds", "Refused"],
  ])("%s cannot be moved", async (name, type) => {
    await expectRefused(
      { logicalCluster: name, to: "shard-1" },
      type,
      "logicalCluster: ",
      name,
      "cannot be moved",
      "name a workspace below root",
    );
  });

  test("the shard that it is on", async () => {
    const input = { logicalCluster: workspace.path, to: "root" };
    await expectRefused(input, "Refused", "to: ", 'is on "root" already', "name another shard");
  });

  test("another origin than the real one", async () => {
    const input = { logicalCluster: workspace.path, to: "shard-1", from: "shard-1" };
    await expectRefused(input, "Refused", "from: ", 'is on root, not on "shard-1"');
  });
});

describe("a destination that is not empty", () => {
  test("is refused with what was found, and is left as it is", async () => {
    const store = bed.store("shard-1");
    const key = `/registry/core/configmaps/${workspace.cluster}/default/left-over`;
    await store.transact([], [put(key, "whatever")]);
    const input = { logicalCluster: workspace.path, to: "shard-1" };
    await expectRefused(input, "Refused", "shard-1 already holds keys", "core/configmaps: 1", "remove them");
    expect((await store.get(key)).entry?.value.toString()).toBe("whatever");
    await store.transact([], [remove(key)]);
  });
});

describe("a worker whose configuration is wrong", () => {
  /** Preflight with a changed configuration, as a worker would run it. */
  async function preflight(change: (kcp: KcpConfig) => KcpConfig): Promise<unknown> {
    const config = loadConfig(bed.testbed.rehomeConfig);
    const sites = new Sites({ ...config, kcp: change(config.kcp!) } satisfies SitesConfig);
    try {
      const activities = createActivities(sites) as LogicalClusterActivities;
      const input = { logicalCluster: workspace.path, to: "shard-1" };
      return await new MockActivityEnvironment().run(activities.preflight, input);
    } catch (error) {
      return error;
    } finally {
      await sites.close();
    }
  }

  function withEtcd(shard: "root" | "shard-1", etcd: object) {
    return (kcp: KcpConfig): KcpConfig => {
      const changed = { ...kcp.shards[shard]!, etcd: { ...kcp.shards[shard]!.etcd, ...etcd } };
      return { ...kcp, shards: { ...kcp.shards, [shard]: changed } };
    };
  }

  async function expectNoWay(change: (kcp: KcpConfig) => KcpConfig, ...words: readonly (string | RegExp)[]) {
    const failed = await preflight(change);
    expect(failed).toBeInstanceOf(ApplicationFailure);
    const { nonRetryable, message } = failed as ApplicationFailure;
    expect({ nonRetryable, message }).toMatchObject({ nonRetryable: true });
    for (const word of words) expect(message).toMatch(word);
  }

  test.each(["root", "shard-1"] as const)("a wrong prefix for the etcd of %s", async (shard) => {
    await expectNoWay(withEtcd(shard, { prefix: "/kcp" }), "/kcp", "rehome.yaml");
  });

  test.each(["root", "shard-1"] as const)(
    "an address for the etcd of %s that nobody answers at",
    async (shard) => {
      const endpoints = [`https://127.0.0.1:${await freePort()}`];
      await expectNoWay(
        withEtcd(shard, { endpoints }),
        `kcp.shards.${shard}.etcd`,
        "endpoints",
        "rehome.yaml",
      );
    },
  );

  test.each(["root", "shard-1"] as const)(
    "a certificate that the etcd of %s does not trust",
    async (shard) => {
      const stranger = await CertificateAuthority.create(dir, `stranger-${shard}`);
      const files = await stranger.issue(`client-${shard}`);
      const { tls } = loadConfig(bed.testbed.rehomeConfig).kcp!.shards[shard]!.etcd;
      await expectNoWay(withEtcd(shard, { tls: { ...tls!, ...files } }), `kcp.shards.${shard}.etcd`, "tls");
      await expectNoWay(
        withEtcd(shard, { tls: { ...tls!, ca: stranger.file } }),
        `kcp.shards.${shard}.etcd`,
        "tls",
      );
    },
  );

  test("the same etcd for both shards", async () => {
    const other = loadConfig(bed.testbed.rehomeConfig).kcp!.shards["root"]!.etcd;
    await expectNoWay(withEtcd("shard-1", other), "shard-1", "rehome.yaml");
  });

  test.each(["root", "shard-1"] as const)("credentials that shard %s does not accept", async (shard) => {
    const kubeconfig = join(dir, `nobody-${shard}.kubeconfig`);
    const server = bed.shards[shard].api.url;
    await writeFile(kubeconfig, nobody(server));
    const change = (kcp: KcpConfig): KcpConfig => ({
      ...kcp,
      shards: { ...kcp.shards, [shard]: { etcd: kcp.shards[shard]!.etcd, kubeconfig } },
    });
    await expectNoWay(change, shard, "kubeconfig", "rehome.yaml");
  });

  test("a shard that the configuration does not know", async () => {
    const change = (kcp: KcpConfig): KcpConfig => ({ ...kcp, shards: { "shard-1": kcp.shards["shard-1"]! } });
    await expectNoWay(
      change,
      workspace.cluster,
      "none of the configured stores",
      "add its shard to kcp.shards",
    );
  });
});

function nobody(server: string): string {
  const cluster = { server, "insecure-skip-tls-verify": true };
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "it",
    clusters: [{ name: "it", cluster }],
    users: [{ name: "it", user: { token: "wrong" } }],
    contexts: [{ name: "it", context: { cluster: "it", user: "it" } }],
  });
}

test("nothing of all that has written anything", async () => {
  await expectNothingWritten();
});

test("a cluster that is being moved already is refused with the name of the other move", async () => {
  const input = { logicalCluster: workspace.path, to: "shard-1", gates: ["CopySnapshot"] };
  const first = await startMove(bed, input);
  await untilGate(first, "CopySnapshot");
  await expectRefused(
    { ...input, gates: [] },
    "Refused",
    "is being moved already",
    first.workflowId,
    "watch it",
  );
  await abort(first);
  expect((await failureOf(first.result())).type).toBe("Aborted");
});

test("a dry run writes nothing and tells what would be moved", async () => {
  const quiet = await snapshots(bed);
  const report = await (
    await startMove(bed, { logicalCluster: workspace.path, to: "shard-1", dryRun: true })
  ).result();
  expect(report).toMatchObject({
    dryRun: true,
    verified: false,
    from: "root",
    to: "shard-1",
    cluster: workspace.cluster,
  });
  expect(report.keys).toBeGreaterThan(3);
  expect(report.families?.map(({ family }) => family)).toContain("core/namespaces");
  expect(report.switched).toBeUndefined();
  const after = await snapshots(bed);
  for (const shard of ["root", "shard-1"] as const)
    expect(touched(quiet[shard], after[shard], isAftermath)).toEqual([]);
});
