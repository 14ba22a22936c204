import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logicalClusterKey } from "../../../etcd/keys.ts";
import { ApiServer } from "../../../kubernetes/api-server.ts";
import { copiesPath } from "../../../kubernetes/kcp/cache.ts";
import { hasDeadContext } from "../../../kubernetes/kcp/probe.ts";
import { pollUntil } from "../../../kubernetes/wait.ts";
import { loadConfig } from "../../../sites/config.ts";
import { Bed, other } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { keysOf, nextChange } from "../harness/keys.ts";
import {
  IMPATIENT,
  abort,
  approve,
  attemptsOf,
  failureOf,
  runMove,
  startMove,
  untilGate,
} from "../harness/moves.ts";
import { CONFIG_MAPS, configMap } from "../harness/objects.ts";
import type { KubeObject } from "../harness/objects.ts";
import { isThorough } from "../harness/thorough.ts";
import {
  ALL_CONFIG_MAPS,
  ALL_HATS,
  HATS,
  admitBinders,
  bindOnce,
  endpoints,
  makeConsumer,
  makeHat,
  makeHatProvider,
  makeTyped,
  seenByProvider,
  useHats,
  writeAsProvider,
} from "./provider-parts.ts";
import type { Actor } from "./provider-parts.ts";

const BINDING = "/apis/apis.kcp.io/v1alpha2/apibindings/hats";

let bed: Bed;
let provider: Actor;
let atRoot: Actor;
let atSecond: Actor;
beforeAll(async () => {
  bed = await Bed.open();
  provider = await makeHatProvider(bed, "root");
  await admitBinders(provider);
  atRoot = await makeConsumer(bed, "root", provider);
  atSecond = await makeConsumer(bed, "shard-1", provider);
  await expectSeen("root", [atRoot]);
  await expectSeen("shard-1", [atSecond]);
});
afterAll(async () => {
  await bed?.close();
});

/** The provider sees hats and claimed ConfigMaps of exactly these consumers at a shard. */
async function expectSeen(shard: "root" | "shard-1", consumers: readonly Actor[]): Promise<void> {
  for (const [resource, name] of [
    [ALL_HATS, "first"],
    [ALL_CONFIG_MAPS, "claimed"],
  ] as const) {
    const wanted = consumers.map(({ cluster }) => `${cluster}/${name}`).toSorted();
    const look = async () => {
      const seen = await seenByProvider(bed, provider, shard, resource);
      const named = seen.filter((object) => object.endsWith(`/${name}`));
      return isDeepStrictEqual(named, wanted) || named.join(", ");
    };
    await pollUntil(`${shard} shows ${wanted.join(", ")}`, look, { everyMs: 200, deadlineMs: 240_000 });
  }
}

/** Whoever may bind the export does so at the first try, at each shard; only the provider's own shard has told others of it. */
async function expectBindable(moved: Actor, home: ShardName): Promise<void> {
  for (const shard of ["root", "shard-1"] as const) {
    expect(await bindOnce(bed, shard, moved)).toBe("bound");
    expect(await hasDeadContext(bed.shards[shard].api, moved.cluster)).toBe(false);
  }
  const cache = new ApiServer("cache", loadConfig(bed.testbed.rehomeConfig).kcp!.cacheServer!);
  for (const resource of ["apis.kcp.io/v1alpha2/apiexports", "rbac.authorization.k8s.io/v1/clusterroles"]) {
    const copies = async (shard: ShardName) =>
      (await cache.json<{ items: unknown[] }>({ path: copiesPath(shard, moved.cluster, resource) })).items;
    expect(await copies(home)).not.toEqual([]);
    expect(await copies(other(home))).toEqual([]);
  }
}

/** For which of kcp's groups the binding of the provider's administrators is known at other shards. */
async function replicatedFor({ objects }: Actor): Promise<string | undefined> {
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/workspace-admin";
  return (await objects.get(path)).metadata.annotations?.["internal.kcp.io/replicate"];
}

describe("a provider with consumers on both shards", () => {
  test("moves, and its consumers do not notice", async () => {
    const { identityHash } = (await provider.objects.get("/apis/apis.kcp.io/v1alpha2/apiexports/hats"))
      .status!;
    const replicated = await replicatedFor(provider);
    expect(replicated).toContain("core.kcp.io");
    const use = useHats([atRoot, atSecond]);
    const [report] = await Promise.allSettled([
      runMove(bed, { logicalCluster: provider.path, to: "shard-1" }),
    ]);
    expect(await use.stop()).toEqual([]);
    const value = { to: "shard-1", verified: true, cleaned: { conflicts: [] } };
    expect(report).toMatchObject({ status: "fulfilled", value });
    const now = await provider.objects.get("/apis/apis.kcp.io/v1alpha2/apiexports/hats");
    expect(now.status?.["identityHash"]).toBe(identityHash);
    expect(await keysOf(bed.store("root"), provider.cluster)).toEqual([]);
    const look = async () => (await replicatedFor(provider)) === replicated || "not yet";
    await pollUntil("roles are replicated again", look, { everyMs: 100, deadlineMs: 240_000 });
  });

  test("still sees and writes what is its own and what it has claimed, on both shards", async () => {
    expect([...(await endpoints(bed, provider)).keys()].toSorted()).toEqual(["root", "shard-1"]);
    for (const consumer of [atRoot, atSecond]) await makeHat(consumer, "second");
    await expectSeen("root", [atRoot]);
    await expectSeen("shard-1", [atSecond]);
    await writeAsProvider(bed, provider, "root", atRoot, "from-provider");
    await writeAsProvider(bed, provider, "shard-1", atSecond, "from-provider");
    for (const { objects } of [atRoot, atSecond]) {
      expect((await objects.get(`${CONFIG_MAPS}/from-provider`)).data).toEqual({ by: "provider" });
    }
  });

  test.each(["root", "shard-1"] as const)("can be bound on %s", async (shard) => {
    const consumer = await makeConsumer(bed, shard, provider);
    expect((await consumer.objects.get(`${HATS}/first`)).spec).toEqual({ name: "first" });
  });

  test.each(["root", "shard-1"] as const)("makes workspaces of its type on %s", async (shard) => {
    await makeHat(await makeTyped(bed, shard, provider), "typed");
  });

  test("can be bound at the first try by whom it allows", async () => {
    await expectBindable(provider, "shard-1");
  });

  test("can be so after an aborted move, which has left roles at the other shard for a while", async () => {
    const move = await startMove(bed, { logicalCluster: provider.path, to: "root", gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    await abort(move);
    expect((await failureOf(move.result())).type).toBe("Aborted");
    await expectBindable(provider, "shard-1");
  });

  test.runIf(isThorough)(
    "can be so when the worker dies while an object stands for the cluster at its origin",
    async () => {
      const input = { logicalCluster: provider.path, to: "root", gates: ["Finalize"], timeouts: IMPATIENT };
      const move = await startMove(bed, input);
      await untilGate(move, "Finalize");
      const key = logicalClusterKey(bed.store("shard-1").prefix, provider.cluster);
      const { seen } = await nextChange(bed.store("shard-1"), ({ entry }) => entry.key === key);
      await approve(move, "Finalize");
      await seen;
      await bed.worker.kill();
      await bed.worker.start();
      expect(await move.result()).toMatchObject({ verified: true, cleaned: { conflicts: [] } });
      expect((await attemptsOf(move)).get("finalize")).toBeGreaterThan(1);
      await expectBindable(provider, "root");
      await runMove(bed, { logicalCluster: provider.path, to: "shard-1" });
    },
  );

  test.runIf(isThorough)("can be so when it comes back to where it has been", async () => {
    for (const to of ["root", "shard-1"] as const) {
      const report = await runMove(bed, { logicalCluster: provider.path, to });
      // Nothing but what every move leaves.
      expect(report.leftInPlace).toHaveLength(2);
      await expectBindable(provider, to);
      expect(await keysOf(bed.store(other(to)), provider.cluster)).toEqual([]);
    }
  });
});

describe("a consumer whose provider has claimed its ConfigMaps", () => {
  test("moves when a user has written its binding last", async () => {
    await atRoot.objects.patch(BINDING, { metadata: { annotations: { of: "a user" } } });
    // What kcp stores then is not what the destination's controllers make of it.
    const { prefix } = bed.store("root");
    const key = `${prefix}/apis.kcp.io/apibindings/customresources/${atRoot.cluster}/hats`;
    const { entry } = await bed.store("root").get(key);
    expect(JSON.parse(entry!.value.toString())).toMatchObject({
      spec: { permissionClaims: [expect.not.objectContaining({ group: "" })] },
      status: { appliedPermissionClaims: [expect.objectContaining({ group: "" })] },
    });
    await runMove(bed, { logicalCluster: atRoot.path, to: "shard-1" });
  });

  test("is seen by the provider at the other shard", async () => {
    await atRoot.objects.create(CONFIG_MAPS, configMap("new", {}));
    const seen = async (shard: "root" | "shard-1", resource: string) =>
      (await seenByProvider(bed, provider, shard, resource)).filter((object) =>
        object.startsWith(`${atRoot.cluster}/`),
      );
    for (const [resource, name] of [
      [ALL_HATS, "first"],
      [ALL_CONFIG_MAPS, "claimed"],
      [ALL_CONFIG_MAPS, "new"],
    ] as const) {
      await expect.poll(async () => await seen("shard-1", resource)).toContain(`${atRoot.cluster}/${name}`);
      await expect.poll(async () => await seen("root", resource)).toEqual([]);
    }
    await writeAsProvider(bed, provider, "shard-1", atRoot, "after-move");
  });
});

test("a consumer moves to where the annotations of its export are copied to its binding", async () => {
  const consumer = await makeConsumer(bed, "root", provider);
  const annotations = { "extra.apis.kcp.io/team": "blue" };
  await provider.objects.patch("/apis/apis.kcp.io/v1alpha2/apiexports/hats", { metadata: { annotations } });
  const hasTeam = (found: KubeObject | undefined) =>
    found?.metadata.annotations?.["extra.apis.kcp.io/team"] === "blue";
  // kcp does so for bindings at the shard of the export, and not for others.
  await atSecond.objects.until(BINDING, hasTeam);
  expect(hasTeam(await consumer.objects.get(BINDING))).toBe(false);
  await runMove(bed, { logicalCluster: consumer.path, to: "shard-1" });
  await consumer.objects.until(BINDING, hasTeam);
});

test.runIf(isThorough)(
  "a provider can be bound at the first try after a move with the fence inactive, and after one back",
  async () => {
    const another = await makeHatProvider(bed, "root");
    await admitBinders(another);
    for (const [to, fence] of [
      ["shard-1", "inactive"],
      ["root", "migration"],
    ] as const) {
      const report = await runMove(bed, { logicalCluster: another.path, to, fence });
      expect(report).toMatchObject({ fence, verified: true, cleaned: { conflicts: [] } });
      await expectBindable(another, to);
      expect(await keysOf(bed.store(other(to)), another.cluster)).toEqual([]);
    }
  },
);
