/** Names that the manifests, the programs and the tests of the control plane bed agree on. */

/** Name of the control plane that moves. */
export const controlPlane = "demo";
/** Its namespace in whichever seed it stands. */
export const seedNamespace = "shoot--demo";
/** On every object in the seed that a move has to carry over. */
export const labels = { "rehome.dev/control-plane": controlPlane } as const;
/** On pods that are reached at the control plane's public address, each at its own port. */
export const publicLabel = { "rehome.dev/public": "true" } as const;
/** Namespace of VPN clients and of the probed pod within the cluster that the control plane serves. */
export const systemNamespace = "kube-system";

export const dnsZone = "rehome.example";
/** The API server and, at another port, the VPN server. */
export const apiServerName = `api.${controlPlane}.${dnsZone}`;
export const vpnPort = 8132;
/** What VPN clients say they want to reach; the same in every seed, as in Gardener. */
export const vpnDestination = `outbound|1194||vpn-seed-server.${seedNamespace}.svc.cluster.local`;

export const etcdNames = ["etcd-main", "etcd-events"] as const;
export type EtcdName = (typeof etcdNames)[number];
export const etcdReplicas = 3;

/** Controllers that act for the control plane on things outside of it, and so must never run twice. */
export const singletons = [
  "machine-controller-manager",
  "cluster-autoscaler",
  "gardener-resource-manager",
] as const;
export type Singleton = (typeof singletons)[number];
