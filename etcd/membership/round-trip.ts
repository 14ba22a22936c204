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
 * The round trip to the slowest of some peers in ms, to about a tenth; undefined until each has been observed twice.
 * @param metrics of a member, as it serves them.
 * @param peers member ids in hexadecimal.
 */
export function roundTripMs(metrics: string, peers: readonly string[]): number | undefined {
  const trips = peers.map((peer) => tripTo(metrics, peer));
  const known = trips.filter((trip) => trip !== undefined);
  return known.length === peers.length && known.length > 0 ? Math.max(...known) : undefined;
}

function tripTo(metrics: string, peer: string): number | undefined {
  const count = valueOf(metrics, "count", peer);
  if (count < LEAST_OBSERVATIONS) return undefined;
  const shares = Array.from({ length: count }, (_, index) => SHARES[index] ?? 1);
  return (valueOf(metrics, "sum", peer) * 1000) / shares.reduce((sum, share) => sum + share, 0);
}

function valueOf(metrics: string, series: "count" | "sum", peer: string): number {
  const name = `etcd_network_peer_round_trip_time_seconds_${series}`;
  return Number(new RegExp(`^${name}\\{To="${peer}"\\} (\\S+)$`, "m").exec(metrics)?.[1] ?? 0);
}
