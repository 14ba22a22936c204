import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logicalClusterKey, parseKey } from "../../../etcd/keys.ts";
import { put } from "../../../etcd/store.ts";
import type { Change } from "../../../etcd/watch.ts";
import { isFenced } from "../../../kubernetes/kcp/probe.ts";
import { loadConfig } from "../../../sites/config.ts";
import { expectSettledOn, tracesOf } from "../harness/aftermath.ts";
import { Bed, other } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { putConfigMaps } from "../harness/bulk.ts";
import { FenceLog, fenceStateOf, harmOf, isFence } from "../harness/fence-log.ts";
import type { Span } from "../harness/fence-log.ts";
import { nextChange, own, putsOf } from "../harness/keys.ts";
import {
  IMPATIENT,
  approve,
  attemptsOf,
  pendingActivities,
  startMove,
  untilGate,
  untilPending,
} from "../harness/moves.ts";
import type { Move } from "../harness/moves.ts";
import { contents, makeProvider, makeTenant } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { CONFIG_MAPS } from "../harness/objects.ts";
import { RawWatch } from "../harness/raw-watch.ts";
import { isThorough } from "../harness/thorough.ts";
import { makeWorker } from "../harness/worker.ts";
import { WorkerPair } from "../harness/worker-pair.ts";
import { rebirths } from "../harness/churn.ts";
import type { Churn } from "../harness/churn.ts";

let bed: Bed;
let tenant: Tenant;
let shard: ShardName = "root";
let fences: FenceLog;
beforeAll(async () => {
  bed = await Bed.open();
  fences = await FenceLog.start(bed.store("root"));
  tenant = await makeTenant(bed, shard, await makeProvider(bed, shard));
});
afterAll(async () => {
  await fences?.[Symbol.asyncDispose]();
  await bed?.close();
});

interface Moment {
  readonly what: string;
  readonly phase: string;
  /** The activity that must be found running when the worker is dead. */
  readonly activity: string;
  /** What the activity does at that moment, as one sees it in a store. */
  readonly at: "origin" | "destination" | "root";
  readonly sees: (change: Change, cluster: string) => boolean;
}

const isOurs = ({ entry }: Change, cluster: string) => parseKey("/registry", entry.key)?.cluster === cluster;
const fenceIn = (phase: string) => (change: Change, cluster: string) =>
  isFence(change, cluster) && fenceStateOf(change).phase === phase;
const isCut = (change: Change, cluster: string) =>
  fenceIn("Preparing")(change, cluster) && fenceStateOf(change).originShard !== "rehome-none";
const puts =
  (which: "lock" | "filler" | "fence" | "switched" | "routed") =>
  ({ entry, type }: Change, cluster: string) =>
    type === "Put" && entry.key === own(cluster)[which];

const MOMENTS: readonly Moment[] = [
  {
    what: "the lock is taken",
    phase: "AlignRevisions",
    activity: "lock",
    at: "origin",
    sees: puts("lock"),
  },
  {
    what: "revisions are raised",
    phase: "AlignRevisions",
    activity: "alignRevisions",
    at: "destination",
    sees: puts("filler"),
  },
  {
    what: "the copy begins",
    phase: "CopySnapshot",
    activity: "copySnapshot",
    at: "destination",
    sees: isOurs,
  },
  {
    what: "the tail begins",
    phase: "Tail",
    activity: "catchUp",
    at: "destination",
    sees: puts("lock"),
  },
  {
    what: "the fence is made ready",
    phase: "Verify",
    activity: "prepareFence",
    at: "root",
    sees: isFence,
  },
  {
    what: "the fence is about to be set",
    phase: "Cutover",
    activity: "cutover",
    at: "destination",
    sees: puts("fence"),
  },
  {
    what: "the fence is set and the cut is asked for",
    phase: "Cutover",
    activity: "cutover",
    at: "root",
    sees: isCut,
  },
  {
    what: "the switch has just been made",
    phase: "Cutover",
    activity: "cutover",
    at: "destination",
    sees: puts("switched"),
  },
  {
    what: "the cluster's object has just gone at the origin",
    phase: "Cutover",
    activity: "cutover",
    at: "origin",
    sees: ({ type, entry }, cluster) =>
      type === "Delete" && entry.key === logicalClusterKey("/registry", cluster),
  },
  {
    what: "routing is awaited",
    phase: "AwaitRouting",
    activity: "awaitRouting",
    at: "origin",
    sees: puts("lock"),
  },
  {
    what: "the first key goes at the origin",
    phase: "OriginCleanup",
    activity: "cleanOrigin",
    at: "origin",
    sees: (change, cluster) => change.type === "Delete" && isOurs(change, cluster),
  },
  {
    what: "the fence is taken away",
    phase: "Finalize",
    activity: "finalize",
    at: "root",
    sees: isFence,
  },
];
/** A thorough run strikes at every moment. Otherwise once in each phase, and in the cutover when kcp has been asked to cut. */
const some = MOMENTS.filter(
  ({ phase, sees }, i) =>
    sees === isCut || (phase !== "Cutover" && MOMENTS.findIndex((first) => first.phase === phase) === i),
);
const chosen = isThorough ? MOMENTS : some;
/** How late a busy machine hears of a change that it watches for. */
const HEARD_WITHIN_MS = 1_000;
/** As many as the moments of one phase, and as many again for those at which the activity had ended already. */
const MOST_MOVES = 8;

/** @returns what had begun and not ended. To be checked at the end only: the next move starts where this one ends. */
async function kill(move: Move): Promise<string[]> {
  return await bed.withoutWorker(async () => await pendingActivities(move));
}

/** The worker may have ended the activity between the change that was awaited and its death: then once more. */
async function untilStruck(strike: () => Promise<boolean>): Promise<void> {
  for (let left = 3; left > 0; left--) if (await strike()) return;
  throw new Error("each time the worker had ended the activity before it died");
}

describe("kill -9 of the worker, while the tenant writes", () => {
  const REBORN = ["phoenix-1", "phoenix-2"];
  let churn: Churn;
  beforeAll(() => {
    churn = rebirths(tenant.objects, REBORN);
  });
  afterAll(async () => {
    await churn.stop();
  });

  test("in one phase after the other: the move goes on and loses nothing", async () => {
    let left = chosen;
    for (let moves = 0; left.length > 0 && moves < MOST_MOVES; moves++) left = await strike(left);
    expect(left.map(({ what }) => what)).toEqual([]);
  }, 900_000);

  /**
   * Moves once, and kills the worker at one of these moments in each phase.
   * @returns those still to be struck: the others of a phase, and those at which the activity had ended before the worker.
   */
  async function strike(moments: readonly Moment[]): Promise<Moment[]> {
    const now = moments.filter(({ phase }, i) => moments.findIndex((first) => first.phase === phase) === i);
    const [from, to] = [shard, other(shard)];
    const served = await lasting();
    const gates = now.map(({ phase }) => phase);
    const move = await startMove(bed, { logicalCluster: tenant.cluster, to, gates, timeouts: IMPATIENT });
    const struck: Moment[] = [];
    for (const moment of now) {
      const { phase, activity, at, sees } = moment;
      await untilGate(move, phase);
      const store = bed.store(at === "root" ? "root" : at === "origin" ? from : to);
      const { seen } = await nextChange(store, (change) => sees(change, tenant.cluster));
      await approve(move, phase);
      await seen;
      if ((await kill(move)).includes(activity)) struck.push(moment);
    }
    await finish(move, to, served);
    const attempts = await attemptsOf(move);
    const wasRepeated = ({ activity }: Moment) => (attempts.get(activity) ?? 0) > 1;
    return moments.filter((moment) => !struck.includes(moment) || !wasRepeated(moment));
  }

  test.runIf(isThorough)(
    "while the origin refuses requests: the move goes on and loses nothing",
    async () => {
      await untilStruck(async () => {
        const [from, to] = [shard, other(shard)];
        const served = await lasting();
        const move = await startMove(bed, { logicalCluster: tenant.cluster, to, timeouts: IMPATIENT });
        const ended = new AbortController();
        const result = move.result().finally(() => ended.abort());
        const { api } = bed.shards[from];
        const isUp = async () => await isFenced([api], tenant.cluster, "migration").catch(() => false);
        while (!ended.signal.aborted && !(await isUp()));
        const pending = await kill(move);
        await result;
        await finish(move, to, served);
        return pending.includes("cutover") && ((await attemptsOf(move)).get("cutover") ?? 0) > 1;
      });
    },
  );

  test("inside the fence, and again while that is taken off: the move goes on and loses nothing", async () => {
    await untilStruck(async () => {
      const from = Date.now();
      const to = other(shard);
      const served = await lasting();
      const move = await startMove(bed, { logicalCluster: tenant.cluster, to, timeouts: IMPATIENT });
      const set = await nextChange(bed.store(to), (change) => puts("fence")(change, tenant.cluster));
      await set.seen;
      const cut = await nextChange(bed.store("root"), (change) =>
        fenceIn("Migrating")(change, tenant.cluster),
      );
      await cut.seen;
      const lifting = await nextChange(bed.store("root"), (change) =>
        fenceIn("DestinationFinalize")(change, tenant.cluster),
      );
      const pending = await kill(move);
      await lifting.seen;
      pending.push(...(await kill(move)));
      await finish(move, to, served);
      // The report tells of the fence that has refused users and came off again.
      const { switched, outage } = await move.result();
      const { fenceAt, earlierFences: earlier = [] } = switched!;
      const seen = fences.spans(tenant.cluster, { from, until: fenceAt });
      const isTold = (span: Span) =>
        earlier.some((one) => one.from <= span.from && one.until >= span.until - HEARD_WITHIN_MS);
      const untold = seen.filter((span) => !isTold(span));
      expect({ untold, earlier }).toEqual({ untold: [], earlier });
      expect(outage!.earlier?.fences ?? 0).toBe(earlier.length);
      return seen.length > 0 && pending.join() === "cutover,cutover";
    });
  });

  test("a worker that is frozen in the cutover and wakes beside its successor changes nothing", async () => {
    await untilStruck(async () => {
      const to = other(shard);
      const served = await lasting();
      const move = await startMove(bed, { logicalCluster: tenant.cluster, to, timeouts: IMPATIENT });
      const cut = await nextChange(bed.store("root"), (change) => isCut(change, tenant.cluster));
      await cut.seen;
      const workers = WorkerPair.of(bed.testbed.rehomeConfig, bed.worker);
      let isTakenOver: boolean | undefined;
      try {
        const frozen = await workers.freeze(move);
        isTakenOver = await frozen?.takenOver();
        await frozen?.thaw();
        await finish(move, to, served);
        await workers.bury();
      } finally {
        await workers.stop();
        await bed.worker.start();
      }
      return isTakenOver === true && ((await attemptsOf(move)).get("cutover") ?? 0) > 1;
    });
  });

  test.runIf(isThorough)(
    "when a fence was noted down and never asked for: the next attempt cuts nobody off",
    async () => {
      const [from, to] = [shard, other(shard)];
      const served = await lasting();
      const move = await startMove(bed, { logicalCluster: tenant.cluster, to, gates: ["Cutover"] });
      await untilGate(move, "Cutover");
      // What an attempt leaves that dies right then.
      const noted = put(own(tenant.cluster).fence, JSON.stringify({ at: Date.now() }));
      await bed.store(to).transact([], [noted]);
      // kcp cuts the shard's watches over all clusters when it replaces the request context of one.
      const { kubeconfig } = loadConfig(bed.testbed.rehomeConfig).kcp!.shards[from]!;
      const everywhere = await RawWatch.open(kubeconfig!, "/clusters/*/api/v1/configmaps?watch=true");
      expect(everywhere.status).toBe(200);
      let isEnded = false;
      void everywhere.ended.then(() => (isEnded = true));
      const inPhase = async (phase: string) =>
        await nextChange(bed.store("root"), (change) => fenceIn(phase)(change, tenant.cluster));
      const [lifted, set] = [await inPhase("DestinationFinalize"), await inPhase("Migrating")];
      await approve(move, "Cutover");
      await finish(move, to, served);
      const revisionOf = async ({ seen }: typeof set) => (await seen).entry.modRevision;
      expect(await revisionOf(lifted)).toBeLessThan(await revisionOf(set));
      expect(isEnded).toBe(false);
      everywhere.close();
    },
  );

  test.runIf(isThorough)(
    "when users are served again: what comes after is not counted as outage",
    async () => {
      await untilStruck(async () => {
        const to = other(shard);
        const served = await lasting();
        const move = await startMove(bed, { logicalCluster: tenant.cluster, to, timeouts: IMPATIENT });
        const routed = await nextChange(bed.store(to), (change) => puts("routed")(change, tenant.cluster));
        const { entry } = await routed.seen;
        const pending = await kill(move);
        await finish(move, to, served);
        const { outage, switched } = await move.result();
        expect(outage?.routingMs).toBe(Number(entry.value.toString()) - switched!.switchedAt);
        return pending.join() === "cutover";
      });
    },
  );

  test.runIf(isThorough)(
    "a worker that is replaced while a move waits for a person leaves it waiting",
    async () => {
      const to = other(shard);
      const served = await lasting();
      await bed.worker.stop();
      const leaving = await makeWorker(bed.testbed.rehomeConfig, "--shutdown-grace-ms", "200");
      await leaving.start();
      const move = await startMove(bed, { logicalCluster: tenant.cluster, to, gates: ["Cutover"] });
      await untilGate(move, "Cutover");
      await untilPending(move, "follow");
      await leaving.stop();
      await bed.worker.start();
      await untilPending(move, "follow");
      await approve(move, "Cutover");
      await finish(move, to, served);
    },
  );

  test("has lost no write of the tenant, over all these moves", async () => {
    await churn.stop();
    expect(churn.acknowledged).toBeGreaterThan(100);
    await churn.expectKept();
  });

  /** What the tenant does not change meanwhile. */
  async function lasting(): Promise<[string, unknown][]> {
    const served = await contents(tenant.objects);
    return [...served].filter(([path]) => !REBORN.some((name) => path.endsWith(`/${name}`)));
  }

  async function finish(move: Move, to: ShardName, served: unknown): Promise<void> {
    const report = await move.result();
    shard = to;
    expect(report).toMatchObject({ to, verified: true, cleaned: { conflicts: [] } });
    expect(await lasting()).toEqual(served);
    expect(await tracesOf(bed, tenant.cluster, to)).toEqual([]);
  }
});

test.runIf(isThorough)(
  "kill -9 in the middle of a large move, three times: nothing is copied twice",
  async () => {
    const count = 10_000;
    const large = await makeTenant(bed, "root", await makeProvider(bed, "root"));
    await putConfigMaps(bed.store("root"), large.cluster, count, { payload: "x".repeat(500) });
    const from = (await bed.store("shard-1").head()) + 1n;
    const gates = ["OriginCleanup"];
    const move = await startMove(bed, {
      logicalCluster: large.cluster,
      to: "shard-1",
      timeouts: IMPATIENT,
      gates,
    });

    const half = `/registry/core/configmaps/${large.cluster}/default/bulk-5`;
    const copying = await nextChange(bed.store("shard-1"), ({ entry }) => entry.key.startsWith(half));
    await copying.seen;
    const pending = [await kill(move)];
    await untilPending(move, "verify");
    pending.push(await kill(move));
    await untilGate(move, "OriginCleanup");
    const copied = await putsOf(bed.store("shard-1"), large.cluster, from);

    const deleting = await nextChange(
      bed.store("root"),
      ({ type, entry }) => type === "Delete" && entry.key.startsWith(half),
    );
    await approve(move, "OriginCleanup");
    await deleting.seen;
    pending.push(await kill(move));
    const report = await move.result();
    expect(report).toMatchObject({ verified: true, cleaned: { conflicts: [] } });
    expect(report.switched?.keys).toBeGreaterThan(count);

    for (const [i, activity] of ["copySnapshot", "verify", "cleanOrigin"].entries()) {
      expect(pending[i]).toContain(activity);
    }
    const bulk = [...copied].filter(([key]) => key.includes("/bulk-"));
    expect(bulk).toHaveLength(count);
    expect(bulk.filter(([, times]) => times > 1)).toEqual([]);
    expect((await large.objects.list(`${CONFIG_MAPS}?limit=20000`)).items).toHaveLength(count + 4);
    await expectSettledOn(bed, large, "shard-1");
  },
);

test("in no state that a fence has had in all these moves would kcp have copied or deleted anything", () => {
  const phases = new Set(fences.states.map(({ phase }) => phase));
  expect([...phases]).toEqual(
    expect.arrayContaining(["Preparing", "Migrating", "DestinationFinalize", "Completed"]),
  );
  expect(fences.states.filter((state) => harmOf(state) !== undefined)).toEqual([]);
});
