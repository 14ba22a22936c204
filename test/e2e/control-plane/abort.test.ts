import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CONTROL_PLANE_PHASES } from "../../../inputs/control-plane-migration.ts";
import { abort, failureOf, untilGate } from "../harness/moves.ts";
import { openBed, whyNot } from "./bed.ts";
import type { ControlPlaneBed } from "./bed.ts";
import { startTo } from "./moves.ts";
import { expectSettledIn } from "./restored.ts";

const commit = CONTROL_PLANE_PHASES.indexOf("CommitQuorum");
/** All that can be undone, and the gate before which all of it has been done. */
const abortable = CONTROL_PLANE_PHASES.slice(1, commit + 1);

describe.skipIf(whyNot)(`an aborted move of a control plane${whyNot ? ` (${whyNot})` : ""}`, () => {
  let bed: ControlPlaneBed;
  beforeAll(async () => {
    bed = await openBed();
  });
  afterAll(async () => {
    await bed?.close();
  });

  test.each(abortable)(
    "before %s leaves the source as it was and nothing at the destination",
    async (gate) => {
      const move = await startTo(bed, "seed-b", { gates: [gate] });
      await untilGate(move, gate);
      await abort(move);
      const { type } = await failureOf(move.result());
      expect(type).toBe("Aborted");
      await expectSettledIn(bed, "seed-a");
    },
  );
});
