/**
 * What etcd's gauge of round trips has told by its first, second, … observation, as a share of the true value. Peers are
 * probed every 4 s, and every 30 s (the first time after 5 s) a smoothed value that begins at 0 and takes an eighth of each
 * probe is observed (etcd v3.6, rafthttp/probing_status.go; xiang90/probing, status.go): after one or two probes it says a
 * fifth of the truth.
 */
const SHARES = [0.18, 0.69, 0.885, 0.957, 0.984] as const;
/** With fewer, one probe more or less makes all the difference. */
const LEAST_OBSERVATIONS = 2;

/**
 * From one observation to the next a single slow probe, such as one that has sat through a cut, is forgotten by six tenths:
 * 7 or 8 probes lie between, and each leaves seven eighths of it.
 */
const FALLING = 0.6;

/** What a member says about its peers, by their ids. */
export type RoundTripReading = ReadonlyMap<string, { readonly count: number; readonly sum: number }>;

/**
 * @param metrics of a member, as it serves them.
 * @param peers member ids in hexadecimal.
 */
export function readRoundTrips(metrics: string, peers: readonly string[]): RoundTripReading {
  const of = (peer: string) => ({
    count: valueOf(metrics, "count", peer),
    sum: valueOf(metrics, "sum", peer),
  });
  return new Map(peers.map((peer) => [peer, of(peer)]));
}

/** Whether every peer has been observed since an earlier reading; without one, often enough to tell anything. */
export function isNewer(reading: RoundTripReading, before: RoundTripReading | undefined): boolean {
  const counts = [...reading].map(
    ([peer, { count }]) => count > (before?.get(peer)?.count ?? LEAST_OBSERVATIONS - 1),
  );
  return counts.length > 0 && counts.every(Boolean);
}

/**
 * The round trip to the slowest peer in ms, to about a tenth, of readings of which each {@link isNewer}. What is more than
 * allowed is believed only when it does not fall any more: it may be what a cut has left behind.
 * @returns undefined when another reading must be awaited.
 */
export function roundTripMs(readings: readonly RoundTripReading[], allowedMs: number): number | undefined {
  const [last, before, earlier] = readings.toReversed();
  if (last === undefined) return undefined;
  const always = tripBetween(undefined, last);
  if (always <= allowedMs || before === undefined) return always <= allowedMs ? always : undefined;
  const latest = tripBetween(before, last);
  const isSettled = earlier !== undefined && latest > tripBetween(earlier, before) * FALLING;
  return latest <= allowedMs || isSettled ? latest : undefined;
}

/** The mean of the observations after one reading up to another, each corrected by its share. */
function tripBetween(before: RoundTripReading | undefined, reading: RoundTripReading): number {
  const trips = [...reading].map(([peer, { count, sum }]) => {
    const since = before?.get(peer) ?? { count: 0, sum: 0 };
    const shares = Array.from(
      { length: count - since.count },
      (_, index) => SHARES[since.count + index] ?? 1,
    );
    return ((sum - since.sum) * 1000) / shares.reduce((total, share) => total + share, 0);
  });
  return Math.max(...trips);
}

function valueOf(metrics: string, series: "count" | "sum", peer: string): number {
  const name = `etcd_network_peer_round_trip_time_seconds_${series}`;
  return Number(new RegExp(`^${name}\\{To="${peer}"\\} (\\S+)$`, "m").exec(metrics)?.[1] ?? 0);
}
