import { expect } from "vitest";
import type { ControlPlaneClientsResult } from "../../../testbed/control-plane/workload/conclusion.ts";

/** Of a busy machine, where the moments in which a write has an excuse are long. */
const EXCUSED = 10;

/** The clients have lost nothing, missed nothing, and none of their requests has failed without an excuse. */
export function expectUnharmed(result: ControlPlaneClientsResult): void {
  const { failedRequests, excused, failures } = result;
  if (failedRequests > excused.cut + excused.dropped) expect(failures).toEqual([]);
  expect(failedRequests).toBeLessThan(EXCUSED);
  expect(result).toMatchObject({ lostWrites: 0, staleReads: 0, missedEvents: 0, duplicateEvents: 0 });
  expect(result.relists).toBe(0);
  expect(result.resourceVersionRegressions).toBe(0);
  // Tells how it was lost.
  if (result.lease.lost) expect(result.lease).toBe("held");
}
