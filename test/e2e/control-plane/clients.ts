import { expect } from "vitest";
import type { ControlPlaneClientsResult } from "../../../testbed/control-plane/workload/conclusion.ts";

/** Writes on kept HTTP/1.1 connections that may meet the end of the source's API servers: see docs/control-plane.md. */
const HTTP1_RESETS = 10;

/** The clients have lost nothing, missed nothing, and none of their requests over HTTP/2 has failed. */
export function expectUnharmed(result: ControlPlaneClientsResult): void {
  const { protocols, failures } = result;
  expect(failures.filter((words) => !words.includes(" http1 "))).toEqual([]);
  expect(protocols.http2.failedRequests).toBe(0);
  expect(failures.filter((words) => !/ http1 (create|update|patch|delete) \S+ 0 after /.test(words))).toEqual(
    [],
  );
  expect(protocols.http1.failedRequests).toBeLessThan(HTTP1_RESETS);
  expect(result).toMatchObject({ lostWrites: 0, staleReads: 0, missedEvents: 0, duplicateEvents: 0 });
  expect(result).toMatchObject({ resourceVersionRegressions: 0, leaseLost: false });
}
