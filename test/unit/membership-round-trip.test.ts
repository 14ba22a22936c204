import { expect, test } from "vitest";
import { roundTripMs } from "../../etcd/membership/round-trip.ts";

/** What a member says after so many observations of a constant round trip, as etcd's prober makes them. */
function metricsAfter(observations: number, tripMs: number, firstProbes: number, peer = "a1"): string {
  let smoothed = 0;
  let sum = 0;
  for (let seen = 0; seen < observations; seen++) {
    const probes = seen === 0 ? firstProbes : 7 + (seen % 2);
    for (let probe = 0; probe < probes; probe++) smoothed += (tripMs - smoothed) / 8;
    sum += smoothed / 1000;
  }
  const name = "etcd_network_peer_round_trip_time_seconds";
  return `${name}_sum{To="${peer}"} ${sum}\n${name}_count{To="${peer}"} ${observations}\n`;
}

test.each([2, 3, 4, 10])("a round trip is known to about a tenth after %d observations", (observations) => {
  for (const tripMs of [0.5, 20, 100]) {
    for (const firstProbes of [1, 2]) {
      const found = roundTripMs(metricsAfter(observations, tripMs, firstProbes), ["a1"]);
      expect(found! / tripMs).toBeGreaterThan(0.88);
      expect(found! / tripMs).toBeLessThan(1.12);
    }
  }
});

test("the slowest peer counts, and nothing is told before each has been observed twice", () => {
  const metrics = metricsAfter(3, 20, 1, "a1") + metricsAfter(3, 80, 1, "b2");
  expect(roundTripMs(metrics, ["a1", "b2"])).toBeGreaterThan(60);
  expect(roundTripMs(metrics, ["a1", "c3"])).toBeUndefined();
  expect(roundTripMs(metricsAfter(1, 20, 1), ["a1"])).toBeUndefined();
  expect(roundTripMs(metrics, [])).toBeUndefined();
});
