import { MockActivityEnvironment } from "@temporalio/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createControlPlaneActivities } from "../../../activities/control-plane/index.ts";
import { SupersededError } from "../../../etcd/errors.ts";
import { CLAIM, holderOf } from "../../../hosting/claim.ts";
import { CONTROL_PLANE_PHASES } from "../../../inputs/control-plane-migration.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";
import { loadSites } from "../../../sites/sites.ts";
import { controlPlane, seedNamespace } from "../../../testbed/control-plane/names.ts";
import { abort, failureOf, untilGate } from "../harness/moves.ts";
import { openBed, whyNot } from "./bed.ts";
import type { ControlPlaneBed } from "./bed.ts";
import { startTo } from "./moves.ts";
import { expectSettledIn } from "./restored.ts";

/** Everything before the point of no return; `npm run chaos` aborts before each of them. */
const all = CONTROL_PLANE_PHASES.slice(1, CONTROL_PLANE_PHASES.indexOf("CommitQuorum") + 1);
/** An abort undoes all phases before its gate, so that these run each phase's undo at least once. */
const some: readonly (typeof all)[number][] = [
  "JoinDestinationPeers",
  "SwitchDNS",
  "HandOverControllers",
  "CommitQuorum",
];
type Steps = ReturnType<typeof createControlPlaneActivities>;
const gates = process.env["REHOME_CHAOS"] === "all" ? all : some;

describe.skipIf(whyNot)(`an aborted move of a control plane${whyNot ? ` (${whyNot})` : ""}`, () => {
  let bed: ControlPlaneBed;
  beforeAll(async () => {
    bed = await openBed();
  });
  afterAll(async () => {
    await bed?.close();
  });

  test.each(gates)("before %s leaves the source as it was and nothing at the destination", async (gate) => {
    const move = await startTo(bed, "seed-b", { gates: [gate] });
    await untilGate(move, gate);
    await abort(move);
    const { type } = await failureOf(move.result());
    expect(type).toBe("Aborted");
    await expectSettledIn(bed, "seed-a");
  });

  test("is not disturbed by attempts that nobody waits for any more", async () => {
    const gate = "JoinDestinationPeers";
    const move = await startTo(bed, "seed-b", { gates: [gate] });
    await untilGate(move, gate);
    const path = `/api/v1/namespaces/${seedNamespace}`;
    const holder = holderOf(await bed.testbed.seeds["seed-a"].api.json<KubeObject>({ path }));
    if (holder === undefined) throw new Error(`nobody has written ${CLAIM}`);
    const subject = { move: holder, controlPlane, from: "seed-a", to: "seed-b" };
    // One that was frozen before it began: it is refused at once.
    await expect(attempt(1, "handOverControllers", subject)).rejects.toThrow(SupersededError);
    // One that was cut off from Temporal alone, and would end the source's API servers when their clients are gone.
    const waiting = attempt(Date.now(), "drainSourceApiServers", { ...subject, drainMs: 600_000 });
    await Promise.all([expect(waiting).rejects.toThrow(SupersededError), abort(move)]);
    expect((await failureOf(move.result())).type).toBe("Aborted");
    await expectSettledIn(bed, "seed-a");
  });

  /** Runs a step here, as a worker does that Temporal has given up. */
  async function attempt<S extends "handOverControllers" | "drainSourceApiServers">(
    epoch: number,
    name: S,
    input: Parameters<Steps[S]>[0],
  ): Promise<unknown> {
    const steps = createControlPlaneActivities(loadSites(bed.testbed.configFile).controlPlanes);
    const environment = new MockActivityEnvironment(
      { currentAttemptScheduledTimestampMs: epoch },
      { client: bed.client },
    );
    return await environment.run(steps[name] as (given: typeof input) => Promise<unknown>, input);
  }
});
