import type { V1EndpointSlice, V1Service, V1ServicePort } from "@kubernetes/client-node";

/** One port of a Service and where it leads now. */
export interface ServiceTarget {
  readonly protocol: "tcp" | "udp";
  /** Addresses at which the node's own processes reach it. */
  readonly clusterIPs: readonly string[];
  /** Addresses at which everybody reaches it. */
  readonly ingressIPs: readonly string[];
  readonly port: number;
  readonly endpoints: readonly { readonly address: string; readonly port: number }[];
}

export const table = "rehome-services";

/** Ports of all Services that have an address, with the endpoints of their slices that may be sent to. */
export function serviceTargets(
  services: readonly V1Service[],
  slices: readonly V1EndpointSlice[],
  ingressOf: (service: V1Service) => readonly string[],
): ServiceTarget[] {
  return services.flatMap((service) => {
    const { metadata, spec } = service;
    const clusterIPs = (spec?.clusterIPs ?? []).filter((address) => /^[\d.]+$/.test(address));
    if (clusterIPs.length === 0) return [];
    const own = slices.filter(
      (slice) =>
        slice.metadata?.namespace === metadata?.namespace &&
        slice.metadata?.labels?.["kubernetes.io/service-name"] === metadata?.name,
    );
    return (spec?.ports ?? []).map((port): ServiceTarget => ({
      protocol: port.protocol === "UDP" ? "udp" : "tcp",
      clusterIPs,
      ingressIPs: ingressOf(service),
      port: port.port,
      endpoints: endpointsOf(port, own),
    }));
  });
}

/** Ready endpoints; where there is none, those that still serve while they end, as kube-proxy does. */
function endpointsOf(
  servicePort: V1ServicePort,
  slices: readonly V1EndpointSlice[],
): ServiceTarget["endpoints"] {
  const all = slices.flatMap((slice) => {
    const port = (slice.ports ?? []).find(({ name }) => (name ?? "") === (servicePort.name ?? ""))?.port;
    if (port === undefined || slice.addressType !== "IPv4") return [];
    return (slice.endpoints ?? []).map(({ addresses, conditions }) => ({
      address: addresses[0] as string,
      port,
      conditions,
    }));
  });
  const ready = all.filter(({ conditions }) => conditions?.ready !== false);
  const chosen =
    ready.length > 0 ? ready : all.filter(({ conditions }) => conditions?.serving && conditions.terminating);
  return chosen
    .map(({ address, port }) => ({ address, port }))
    .sort((a, b) => a.address.localeCompare(b.address));
}

/**
 * Rules for `nft -f`, which replace the former ones in one transaction.
 * Connections that exist stay with their endpoint. An address without an
 * endpoint refuses at once instead of leading to whatever listens on the node.
 * @param nodeAddress source of connections that come back to this node by an ingress address
 */
export function renderRuleset(targets: readonly ServiceTarget[], nodeAddress: string): string {
  const served = targets.filter(({ endpoints }) => endpoints.length > 0);
  const jumps = (addresses: (target: ServiceTarget) => readonly string[]): string[] =>
    served.flatMap((target, index) =>
      addresses(target).map(
        (address) => `ip daddr ${address} ${target.protocol} dport ${target.port} goto service-${index}`,
      ),
    );
  const cluster = [...new Set(targets.flatMap(({ clusterIPs }) => clusterIPs))];
  const ingress = [...new Set(targets.flatMap(({ ingressIPs }) => ingressIPs))];
  const body = [
    ...addressSet("cluster", cluster),
    ...addressSet("ingress", ingress),
    ...served.flatMap(serviceChains),
    ...chain(
      "prerouting",
      "type nat hook prerouting priority dstnat",
      jumps(({ ingressIPs }) => ingressIPs),
    ),
    ...chain(
      "output",
      "type nat hook output priority -100",
      jumps(({ clusterIPs, ingressIPs }) => [...clusterIPs, ...ingressIPs]),
    ),
    ...chain("postrouting", "type nat hook postrouting priority srcnat", [
      `oifname "lo" ip saddr @ingress snat to ${nodeAddress}`,
    ]),
    ...chain("refuse-output", "type filter hook output priority filter", refusals("cluster")),
    ...chain("refuse-input", "type filter hook input priority filter", refusals("ingress")),
  ];
  return [`table ip ${table} {}`, `delete table ip ${table}`, `table ip ${table} {`, ...body, "}", ""].join(
    "\n",
  );
}

function refusals(set: string): string[] {
  return [
    "ct state established,related accept",
    `ip daddr @${set} meta l4proto tcp reject with tcp reset`,
    `ip daddr @${set} meta l4proto udp reject`,
  ];
}

function serviceChains({ endpoints, protocol }: ServiceTarget, index: number): string[] {
  const branches = endpoints.map((_, branch) => `${branch} : goto service-${index}-${branch}`).join(", ");
  return [
    ...endpoints.flatMap(({ address, port }, branch) =>
      chain(`service-${index}-${branch}`, undefined, [`meta l4proto ${protocol} dnat to ${address}:${port}`]),
    ),
    ...chain(`service-${index}`, undefined, [`numgen random mod ${endpoints.length} vmap { ${branches} }`]),
  ];
}

function chain(name: string, hook: string | undefined, rules: readonly string[]): string[] {
  const head = hook === undefined ? [] : [`    ${hook};`];
  return [`  chain ${name} {`, ...head, ...rules.map((rule) => `    ${rule}`), "  }"];
}

function addressSet(name: string, addresses: readonly string[]): string[] {
  const elements = addresses.length === 0 ? [] : [`    elements = { ${addresses.join(", ")} }`];
  return [`  set ${name} {`, "    type ipv4_addr", ...elements, "  }"];
}
