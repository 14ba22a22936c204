/**
 * The plan of addresses of a test bed's network, `P` being its prefix (`10.75`)
 * and `n` the number of the place (1 to 3):
 *
 * | addresses in `P.n.0/24` | for |
 * |---|---|
 * | .1 | the operator (the machine's own network), end of a link that can be cut |
 * | .2 | the place itself: API server, node, source of all that it sends |
 * | .16 - .63 | Services of type LoadBalancer |
 * | .64 - .127 | ClusterIPs |
 * | .128 - .254 | pods |
 */
export const placeNames = ["seed-a", "seed-b", "shoot"] as const;
export type PlaceName = (typeof placeNames)[number];

/** One network namespace and its addresses. */
export interface Place {
  readonly name: PlaceName;
  /** Name for `ip netns exec`, and of the operator's end of the link to it. */
  readonly namespace: string;
  /** All addresses of the place, e.g. `10.75.1.0/24`. */
  readonly subnet: string;
  /** Its own address, e.g. `10.75.1.2`, reachable from the other places and for the operator. */
  readonly address: string;
  /** Address under which the place reaches the operator, e.g. `10.75.1.1`. */
  readonly operatorAddress: string;
  /** CIDR for kube-apiserver's `--service-cluster-ip-range`, e.g. `10.75.1.64/26`. */
  readonly clusterIps: string;
  /** First and last address for Services of type LoadBalancer, e.g. `10.75.1.16-10.75.1.63`. */
  readonly loadBalancerIps: string;
  /** First and last address for pods, e.g. `10.75.1.128-10.75.1.254`. */
  readonly podIps: string;
  /** CIDR that holds {@link podIps}, for routes. */
  readonly podSubnet: string;
}

/** Network device in each place that leads to the operator. */
export const operatorDevice = "operator";

/** Network device in each place that leads over the wire to another place. */
export function wireDevice(to: PlaceName): string {
  return `to-${to}`;
}

/** @param id names the bed on this machine, at most 12 characters; @param prefix first two parts of the addresses */
export function makePlace(name: PlaceName, id: string, prefix: string): Place {
  const net = `${prefix}.${placeNames.indexOf(name) + 1}`;
  return {
    name,
    namespace: `${id}-${name === "shoot" ? "s" : name.slice(-1)}`,
    subnet: `${net}.0/24`,
    address: `${net}.2`,
    operatorAddress: `${net}.1`,
    clusterIps: `${net}.64/26`,
    loadBalancerIps: `${net}.16-${net}.63`,
    podIps: `${net}.128-${net}.254`,
    podSubnet: `${net}.128/25`,
  };
}

/** Command line that runs a program in a place's network; the process keeps its id. */
export function inside(
  place: Place,
  command: string,
  args: readonly string[],
): { command: string; arguments: string[] } {
  return { command: "ip", arguments: ["netns", "exec", place.namespace, command, ...args] };
}
