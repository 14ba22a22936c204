import { expect, test } from "vitest";
import { isNewer, readRoundTrips, roundTripMs } from "../../etcd/membership/round-trip.ts";
import type { RoundTripReading } from "../../etcd/membership/round-trip.ts";

const ALLOWED_MS = 180;

interface Link {
  readonly tripMs: number;
  /** What a probe takes that has sat through a cut, and in which observation it falls. */
  readonly stalledMs?: number;
  readonly stalledIn?: number;
  readonly firstProbes?: number;
}

/** What a member says after each observation, as etcd's prober makes them: readings one and two, …, `observations`. */
function metricsOf(link: Link, observations: number, peer = "a1"): string[] {
  const name = "etcd_network_peer_round_trip_time_seconds";
  let smoothed = 0;
  let sum = 0;
  return Array.from({ length: observations }, (_, seen) => {
    const probes = seen === 0 ? (link.firstProbes ?? 1) : 7 + (seen % 2);
    for (let probe = 0; probe < probes; probe++) {
      const isStalled = seen === link.stalledIn && probe === probes - 1;
      smoothed += ((isStalled ? link.stalledMs! : link.tripMs) - smoothed) / 8;
    }
    sum += smoothed / 1000;
    return `${name}_sum{To="${peer}"} ${sum}\n${name}_count{To="${peer}"} ${seen + 1}\n`;
  });
}

function readingsOf(link: Link, observations: number): RoundTripReading[] {
  const all = metricsOf(link, observations).map((metrics) => readRoundTrips(metrics, ["a1"]));
  return all.filter((reading, index) => isNewer(reading, all[index - 1]));
}

/** What is told at last, and after how many observations. */
function told(link: Link, from = 2): { ms: number | undefined; observations: number } {
  for (let observations = from; observations < 30; observations++) {
    const readings = readingsOf(link, observations).slice(from - 2);
    const ms = roundTripMs(readings, ALLOWED_MS);
    if (ms !== undefined) return { ms, observations };
  }
  return { ms: undefined, observations: Infinity };
}

test.each([2, 3, 4, 10])("a round trip is known to about a tenth after %d observations", (observations) => {
  for (const tripMs of [0.5, 20, 100]) {
    for (const firstProbes of [1, 2]) {
      const { ms, observations: needed } = told({ tripMs, firstProbes }, observations);
      expect(ms! / tripMs).toBeGreaterThan(0.88);
      expect(ms! / tripMs).toBeLessThan(1.12);
      expect(needed).toBe(observations);
    }
  }
});

test.each([2, 3, 6])("a link that is too slow is told as such two observations after the %dth", (from) => {
  for (const tripMs of [250, 2_000]) {
    const { ms, observations } = told({ tripMs }, from);
    expect(ms! / tripMs).toBeGreaterThan(0.88);
    expect(ms! / tripMs).toBeLessThan(1.12);
    expect(observations).toBe(from + 2);
  }
});

test("a probe that has sat through a cut does not make a link slow", () => {
  for (const from of [2, 3, 6]) {
    for (const stalledMs of [4_000, 8_000, 20_000]) {
      const { ms, observations } = told({ tripMs: 20, stalledMs, stalledIn: from - 1 }, from);
      expect(ms).toBeLessThanOrEqual(ALLOWED_MS);
      expect(observations).toBeLessThanOrEqual(from + 4);
    }
  }
});

/** A reading after so many observations of a peer and of a slower one. */
function twoPeers(fast: number, slow: number, peers = ["a1", "b2"]): RoundTripReading {
  const metrics = [metricsOf({ tripMs: 20 }, fast), metricsOf({ tripMs: 80 }, slow, "b2")];
  return readRoundTrips(metrics.map((all) => all.at(-1)).join(""), peers);
}

test("the slowest peer counts, and nothing is told before each has been observed twice, and again", () => {
  expect(roundTripMs([twoPeers(3, 3)], ALLOWED_MS)).toBeGreaterThan(60);
  expect(isNewer(twoPeers(3, 3), undefined)).toBe(true);
  expect(isNewer(twoPeers(3, 1), undefined)).toBe(false);
  expect(isNewer(twoPeers(3, 3, ["a1", "c3"]), undefined)).toBe(false);
  expect(isNewer(twoPeers(3, 3, []), undefined)).toBe(false);
  expect(isNewer(twoPeers(4, 3), twoPeers(3, 3))).toBe(false);
  expect(isNewer(twoPeers(4, 4), twoPeers(3, 3))).toBe(true);
});
