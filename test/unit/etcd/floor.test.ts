import { expect, test } from "vitest";
import { headroomFor } from "../../../etcd/floor.ts";

const SECOND = 1_000;
const floor = { revision: 12_000n, origin: 10_000n, at: 0 };

test.each([
  ["is the least before anything is known", undefined, 10_000n, 5 * SECOND, 2_000n],
  ["is the least on a shard at rest", floor, 10_100n, 60 * SECOND, 2_000n],
  ["is what twice the time so far will bring", floor, 40_000n, 30 * SECOND, 60_000n],
  ["looks ten minutes ahead at most", floor, 10_000n + 360_000n, 3_600 * SECOND, 60_000n],
  ["takes no notice of a clock that went back", floor, 40_000n, -SECOND, 2_000n],
])("headroom %s", (_what, before, origin, now, expected) => {
  expect(headroomFor(before, origin, now)).toBe(expected);
});
