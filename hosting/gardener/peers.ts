import { ApiError } from "../../kubernetes/api-server.ts";
import { list, removeObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import type { MemberAddress } from "../types.ts";
import type { ShootSeed } from "./namespace.ts";

const PEER_PORT = 2380;
const CLIENT_PORT = 2379;
const OF = "rehome.dev/etcd";
/** Gardener's network policies keep the world out of a control plane's namespace, but for Services that say this. */
const FROM_WORLD = "networking.resources.gardener.cloud/from-world-to-ports";

const serviceOf = (etcd: string, ordinal: number) => `${etcd}-${ordinal}-rehome`;
export const podOf = (etcd: string, ordinal: number) => `${etcd}-${ordinal}`;

/**
 * Gives each member a Service of its own with a load balancer: an address that is unique over both seeds, which
 * etcd's comparison of resolved peer URLs needs. They are rehome's; Gardener and druid know nothing of them.
 */
export async function exposeMembers(
  { namespace }: ShootSeed,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<MemberAddress[]> {
  const path = namespace.core("services");
  const ordinals = Array.from({ length: count }, (_, ordinal) => ordinal);
  for (const ordinal of ordinals) {
    const name = serviceOf(etcd, ordinal);
    if ((await namespace.service(name, signal)) !== undefined) continue;
    try {
      await namespace.api.json({
        method: "POST",
        path,
        body: service(name, etcd, podOf(etcd, ordinal)),
        signal,
      });
    } catch (error) {
      if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
    }
  }
  return await Promise.all(
    ordinals.map(async (ordinal) => {
      const host = await namespace.ingressOf(serviceOf(etcd, ordinal), signal);
      const url = (port: number) => `https://${host}:${port}`;
      return { pod: podOf(etcd, ordinal), peerUrl: url(PEER_PORT), clientUrl: url(CLIENT_PORT) };
    }),
  );
}

/** @returns the client URLs of the members that have an address already. */
export async function exposedClientUrls(
  { namespace }: ShootSeed,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<string[]> {
  const hosts: string[] = [];
  for (let ordinal = 0; ordinal < count; ordinal++) {
    const [ingress] =
      (await namespace.service(serviceOf(etcd, ordinal), signal))?.status?.loadBalancer?.ingress ?? [];
    const host = ingress?.ip ?? ingress?.hostname;
    if (host !== undefined) hosts.push(`https://${host}:${CLIENT_PORT}`);
  }
  return hosts;
}

export async function hideMembers(
  { namespace }: ShootSeed,
  etcd: string,
  signal: AbortSignal,
): Promise<void> {
  const path = namespace.core("services");
  const { items } = await list<KubeObject>(namespace.api, { path, labels: { [OF]: etcd } }, signal);
  for (const { metadata } of items) await removeObject(namespace.api, `${path}/${metadata.name}`);
}

function service(name: string, etcd: string, pod: string): object {
  const ports = [
    { name: "peer", port: PEER_PORT, targetPort: PEER_PORT, protocol: "TCP" },
    { name: "client", port: CLIENT_PORT, targetPort: CLIENT_PORT, protocol: "TCP" },
  ];
  const world = JSON.stringify(ports.map(({ port, protocol }) => ({ port, protocol })));
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, labels: { [OF]: etcd }, annotations: { [FROM_WORLD]: world } },
    spec: {
      type: "LoadBalancer",
      ports,
      selector: { "statefulset.kubernetes.io/pod-name": pod },
      // A member that joins must be reached before it is ready.
      publishNotReadyAddresses: true,
    },
  };
}
