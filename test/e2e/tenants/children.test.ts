import { afterAll, beforeAll, expect, test } from "vitest";
import { createWorkspace, deleteWorkspace } from "../../../testbed/workspaces.ts";
import type { Workspace } from "../../../testbed/workspaces.ts";
import { expectNoTrace } from "../harness/aftermath.ts";
import { Bed, SHARDS, other } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { runMove } from "../harness/moves.ts";
import { CONFIG_MAPS, Objects, configMap } from "../harness/objects.ts";
import { makeWorkspace } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";

/** A workspace with workspaces below it, on both shards: paths lead through it, and it holds their Workspace objects. */
let bed: Bed;
let parent: Workspace;
const children: Workspace[] = [];
beforeAll(async () => {
  bed = await Bed.open();
  parent = await makeWorkspace(bed, "parent", "root");
  for (const shard of SHARDS) children.push(await makeChild(`on-${shard}`, shard));
});
afterAll(async () => {
  await bed?.close();
});

async function makeChild(name: string, shard: ShardName): Promise<Workspace> {
  const child = await createWorkspace({ kubeconfig: bed.kubeconfig, parent: parent.path, name, shard });
  await new Objects(bed.frontProxy, child.path).create(CONFIG_MAPS, configMap("its-own", { of: name }));
  return child;
}

/** By their paths, which the parent's shard resolves. */
async function expectReachable(): Promise<void> {
  for (const { path, name } of children) {
    const { data } = await new Objects(bed.frontProxy, path).get(`${CONFIG_MAPS}/its-own`);
    expect(data).toEqual({ of: name });
  }
}

test.each((["shard-1", "root"] as const).slice(0, isThorough ? 2 : 1))(
  "moves to %s, and its children stay where they are",
  async (to) => {
    const moved = await runMove(bed, { logicalCluster: parent.path, to });
    expect(moved).toMatchObject({ verified: true, to, cleaned: { conflicts: [] } });
    await expectReachable();
    for (const shard of SHARDS) {
      const name = `after-${to}-on-${shard}`;
      const child = await makeChild(name, shard);
      await deleteWorkspace({ kubeconfig: bed.kubeconfig, parent: parent.path, name });
      await expectNoTrace(bed, child.cluster);
    }
  },
);

test.runIf(isThorough)(
  "a child moves while its parent is on the other shard, and is deleted with it",
  async () => {
    const [child] = children;
    for (const to of [other("root"), "root"] as const) {
      expect(await runMove(bed, { logicalCluster: child!.path, to })).toMatchObject({ verified: true, to });
      await expectReachable();
    }
    await runMove(bed, { logicalCluster: child!.path, to: "shard-1" });
    await deleteWorkspace({ kubeconfig: bed.kubeconfig, name: parent.name });
    for (const { cluster } of [parent, ...children]) await expectNoTrace(bed, cluster);
  },
);
