import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CONTROL_PLANE_PHASES } from "../../../inputs/control-plane-migration.ts";
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
});
