import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseKey } from "../../../etcd/keys.ts";
import type { Change } from "../../../etcd/watch.ts";
import { expectSettledOn } from "../harness/aftermath.ts";
import { Bed } from "../harness/bed.ts";
import type { ShardName } from "../harness/bed.ts";
import { isFence } from "../harness/fence-log.ts";
import { nextChange } from "../harness/keys.ts";
import {
  IMPATIENT,
  abort,
  attemptsOf,
  failureOf,
  pendingActivities,
  startMove,
  untilGate,
} from "../harness/moves.ts";
import { contents, expectAlive, makeProvider, makeTenant } from "../harness/tenant.ts";
import type { Tenant } from "../harness/tenant.ts";
import { isThorough } from "../harness/thorough.ts";

let bed: Bed;
let tenant: Tenant;
beforeAll(async () => {
  bed = await Bed.open();
  tenant = await makeTenant(bed, "root", await makeProvider(bed, "root"));
});
afterAll(async () => {
  await bed?.close();
});

interface Moment {
  readonly what: string;
  /** The undo's step that must be found running when the worker is dead. */
  readonly activity: string;
  /** What the step does at that moment, as one sees it in a store. */
  readonly at: ShardName;
  readonly sees: (change: Change, cluster: string) => boolean;
}

const MOMENTS: readonly Moment[] = [
  { what: "the fence is taken away", activity: "dismantleFence", at: "root", sees: isFence },
  {
    what: "the first copy goes",
    activity: "clearDestination",
    at: "shard-1",
    sees: ({ type, entry }, cluster) =>
      type === "Delete" && parseKey("/registry", entry.key)?.cluster === cluster,
  },
];
/** The worker may have ended the step between the change that was awaited and its death: then once more. */
const TRIES = 3;
const timeouts = {
  ...IMPATIENT,
  dismantleFence: { attemptMs: 5_000 },
  clearDestination: { heartbeatMs: 3_000 },
};

describe("kill -9 of the worker while a move is undone", () => {
  test.each(isThorough ? MOMENTS : MOMENTS.slice(-1))(
    "when $what: the undo goes on, and the origin serves",
    async (moment) => {
      const served = await contents(tenant.objects);
      let isStruck = false;
      for (let tries = 0; !isStruck && tries < TRIES; tries++) {
        isStruck = await strike(moment);
        expect(await contents(tenant.objects)).toEqual(served);
        await expectSettledOn(bed, tenant, "root");
      }
      expect(isStruck).toBe(true);
      await expectAlive(tenant);
    },
  );
});

/** @returns whether the step was under way when the worker died, and was run again. */
async function strike({ activity, at, sees }: Moment): Promise<boolean> {
  const gates = ["Cutover"];
  const move = await startMove(bed, { logicalCluster: tenant.cluster, to: "shard-1", gates, timeouts });
  // The fence is ready, the cluster claimed for it, and everything copied.
  await untilGate(move, "Cutover");
  const { seen } = await nextChange(bed.store(at), (change) => sees(change, tenant.cluster));
  await abort(move);
  await seen;
  const pending = await bed.withoutWorker(async () => await pendingActivities(move));
  expect((await failureOf(move.result())).type).toBe("Aborted");
  return pending.includes(activity) && ((await attemptsOf(move)).get(activity) ?? 0) > 1;
}
