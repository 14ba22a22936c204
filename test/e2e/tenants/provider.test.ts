import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pollUntil } from "../../../kubernetes/wait.ts";
import { Bed } from "../harness/bed.ts";
import { keysOf } from "../harness/keys.ts";
import { runMove } from "../harness/moves.ts";
import { CONFIG_MAPS, configMap } from "../harness/objects.ts";
import {
  ALL_CONFIG_MAPS,
  ALL_HATS,
  HATS,
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

let bed: Bed;
let provider: Actor;
let atRoot: Actor;
let atSecond: Actor;
beforeAll(async () => {
  bed = await Bed.open();
  provider = await makeHatProvider(bed, "root");
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
    await pollUntil(`${shard} shows ${wanted.join(", ")}`, look, { everyMs: 200, deadlineMs: 30_000 });
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
    await pollUntil("roles are replicated again", look, { everyMs: 100, deadlineMs: 30_000 });
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

  // Where it is now: at other shards kcp may remember for a while that nobody may bind (docs/logical-cluster.md).
  test("makes workspaces of its type", async () => {
    await makeHat(await makeTyped(bed, "shard-1", provider), "typed");
  });
});

describe("a consumer whose provider has claimed its ConfigMaps", () => {
  test("moves, and the provider sees it at the other shard", async () => {
    await runMove(bed, { logicalCluster: atRoot.path, to: "shard-1" });
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
      await expect
        .poll(async () => await seen("shard-1", resource), { timeout: 30_000 })
        .toContain(`${atRoot.cluster}/${name}`);
      await expect.poll(async () => await seen("root", resource), { timeout: 30_000 }).toEqual([]);
    }
    await writeAsProvider(bed, provider, "shard-1", atRoot, "after-move");
  });
});
