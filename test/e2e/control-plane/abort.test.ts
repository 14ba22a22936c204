import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CONTROL_PLANE_PHASES } from "../../../inputs/control-plane-migration.ts";
import { abort, failureOf, untilGate } from "../harness/moves.ts";
import { openBed, whyNot } from "./bed.ts";
import type { ControlPlaneBed } from "./bed.ts";
import { startTo } from "./moves.ts";
import { expectSettledIn } from "./restored.ts";

/**
 * Gates before which a move is aborted. An abort undoes all phases before its gate, so that each phase's undo is run more
 * than once; the gates left out differ from their neighbours by a phase that has none, or one of the destination's alone.
 */
const gates: readonly (typeof CONTROL_PLANE_PHASES)[number][] = [
  "CopySecrets",
  "JoinDestinationPeers",
  "StartDestinationKubeAPIServer",
  "SwitchDNS",
  "HandOverControllers",
  "CommitQuorum",
];

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
