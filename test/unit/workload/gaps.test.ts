import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { longestGap, median } from "../../../testbed/workload/gaps.ts";

describe("median", () => {
  it("is the middle one, or between the two in the middle, and 0 of nothing", () => {
    expect(median([5, 1, 3])).toBe(3);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([])).toBe(0);
  });
});

describe("longestGap", () => {
  it("subtracts the usual interval", () => {
    const gap = longestGap([0, 100, 200, 700, 800], 800);
    expect(gap).toEqual({ ms: 400, from: 200, to: 700, usualMs: 100 });
  });

  it("counts a silence that lasts until the end", () => {
    expect(longestGap([0, 100, 200], 1200)).toMatchObject({ ms: 900, from: 200, to: 1200 });
  });

  it("is undefined where nothing can be said", () => {
    expect(longestGap([], 1000)).toBeUndefined();
    expect(longestGap([5], 1000)).toBeUndefined();
    expect(longestGap([0, 100, 200], 200, { from: 300, to: 400 })).toBeUndefined();
  });

  it("can be asked for the silence across a moment, though another was longer", () => {
    const successes = [0, 100, 200, 900, 1000, 1100, 1400, 1500];
    expect(longestGap(successes, 1500)).toMatchObject({ from: 200, to: 900 });
    expect(longestGap(successes, 1500, { from: 1150, to: 1160 })).toMatchObject({ from: 1100, to: 1400 });
  });

  it("does not depend on the order, is never negative, and grows with a silence put into the middle", () => {
    const times = fc.array(fc.integer({ min: 0, max: 10_000 }), { minLength: 5, maxLength: 60 });
    fc.assert(
      fc.property(times, fc.integer({ min: 20_000, max: 90_000 }), (values, silence) => {
        const end = Math.max(...values);
        const gap = longestGap(values, end);
        expect(longestGap(values.toReversed(), end)).toEqual(gap);
        expect(gap?.ms).toBeGreaterThanOrEqual(0);
        const later = values
          .toSorted((a, b) => a - b)
          .map((time, index) => (index < 2 ? time : time + silence));
        const longer = longestGap(later, end + silence);
        expect(longer?.ms).toBeGreaterThanOrEqual(silence - (longer?.usualMs ?? 0));
      }),
    );
  });
});
