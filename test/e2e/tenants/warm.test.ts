import { afterAll, beforeAll, expect, test } from "vitest";
import { pollUntil } from "../../../kubernetes/wait.ts";
import { Bed } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { abort, approve, failureOf, startMove, untilGate } from "../harness/moves.ts";
import { RawWatch } from "../harness/raw-watch.ts";
import { CRDS, WIDGETS, crd, makeProvider, makeTenant, makeWorkspace } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";

/**
 * kcp makes the storage of a custom resource with the first request for it, and answers 429 to lists and watches until
 * its watch cache is there. After a move nobody may be the first.
 */
const GROUP = "warm.rehome.test";

let bed: Bed;
let tenant: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
  await makeCrd("empties", "Empty");
  await makeCrd("fulls", "Full", ["v1", "v2"]);
  await tenant.objects.create(at("fulls"), {
    apiVersion: `${GROUP}/v1`,
    kind: "Full",
    metadata: { name: "one" },
  });
});
afterAll(async () => {
  await bed?.close();
});

function at(plural: string, version = "v1"): string {
  return `/apis/${GROUP}/${version}/namespaces/default/${plural}`;
}

async function makeCrd(plural: string, kind: string, versions = ["v1"]): Promise<void> {
  const made = crd(GROUP, plural, kind) as { spec: { versions: object[] } };
  const [only] = made.spec.versions;
  made.spec.versions = versions.map((name, index) => ({ ...only, name, storage: index === 0 }));
  await tenant.objects.create(CRDS, made);
  const path = tenant.objects.path(at(plural));
  const look = async () => {
    const { status } = await bed.frontProxy.request({ path });
    return status === 200 || String(status);
  };
  await pollUntil(`${path} is served`, look, { everyMs: 50, deadlineMs: 240_000 });
}

interface First {
  readonly path: string;
  readonly list: number;
  readonly watch: number;
  readonly ms: number;
}

/** What the very first list and watch of a resource are answered. */
async function firstRequest(path: string): Promise<First> {
  const begun = performance.now();
  const { status } = await bed.frontProxy.request({ path: tenant.objects.path(path) });
  const ms = Math.round(performance.now() - begun);
  const watch = await RawWatch.open(bed.kubeconfig, `${tenant.objects.path(path)}?watch=true`);
  watch.close();
  return { path, list: status, watch: watch.status, ms };
}

/** How many writes that are stored nowhere a shard has let through its admission. */
async function reviewsAt(shard: ShardName): Promise<number> {
  const { body } = await bed.shards[shard].api.request({ path: "/metrics" });
  const isCount = (line: string) =>
    line.startsWith("apiserver_request_total{") &&
    line.includes('code="201"') &&
    line.includes('resource="selfsubjectaccessreviews"');
  const counts = body.split("\n").filter(isCount);
  return counts.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

test("what admits writes is ready before the switch", async () => {
  const before = await reviewsAt("shard-1");
  const { cluster } = await makeWorkspace(bed, "warm", "root");
  const move = await startMove(bed, { logicalCluster: cluster, to: "shard-1", gates: ["Cutover"] });
  await untilGate(move, "Cutover");
  expect(await reviewsAt("shard-1")).toBeGreaterThan(before);
  await abort(move);
  await failureOf(move.result());
});

const SHARDS_IN_TURN: [string, ShardName][] = [
  ["that has never had the cluster", "shard-1"],
  ["that has had it before", "root"],
  ["where it is once more", "shard-1"],
];
test.each(SHARDS_IN_TURN.slice(0, isThorough ? 3 : 2))(
  "the first request at a shard %s is served",
  async (_which, to) => {
    const late = `late${to.replace(/\W/g, "")}${Date.now()}s`;
    const move = await startMove(bed, { logicalCluster: tenant.cluster, to, gates: ["Cutover"] });
    await untilGate(move, "Cutover");
    // What comes after all has been warmed up and proven.
    await makeCrd(late, `Late${Date.now()}`);
    await approve(move, "Cutover");
    await move.result();
    const paths = [at("empties"), at("fulls"), at("fulls", "v2"), at(late), WIDGETS];
    const first = await Promise.all(paths.map(firstRequest));
    expect(first.map(({ path, list, watch }) => ({ path, list, watch }))).toEqual(
      paths.map((path) => ({ path, list: 200, watch: 200 })),
    );
  },
);
