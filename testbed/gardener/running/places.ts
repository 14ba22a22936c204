import { demo } from "../garden-objects.ts";

/** Where programs of the control plane listen, all within 127.0.0.0/8. */

export const etcdNames = ["etcd-main", "etcd-events"] as const;
export type EtcdName = (typeof etcdNames)[number];
export type SeedSide = "source" | "destination";

export const PEER_PORT = 2380;
export const CLIENT_PORT = 2379;
export const zone = "rehome.example";
export const dnsNames = ["api.demo.internal.rehome.example", "api.demo.rehome.example"] as const;

const sides: readonly SeedSide[] = ["source", "destination"];

/** Address of an etcd's pod, which nobody outside its seed would reach. */
export function podAddress(side: SeedSide, etcd: EtcdName, ordinal: number): string {
  return `127.${sides.indexOf(side) + 30}.${etcdNames.indexOf(etcd)}.${ordinal + 10}`;
}

/** What the load balancers of a seed give to Services: its ingress gateway's is the first. */
export function balancerAddress(side: SeedSide, index: number): string {
  return `127.${sides.indexOf(side) + 20}.0.${index + 10}`;
}

/** What a member's own load balancer gives it. The process listens there itself. */
export function memberBalancerAddress(side: SeedSide, etcd: EtcdName, ordinal: number): string {
  return `127.${sides.indexOf(side) + 20}.${etcdNames.indexOf(etcd) + 1}.${ordinal + 10}`;
}

/** Every address at which a member or an API server is reached. */
export function allAddresses(): string[] {
  return sides.flatMap((side) => [
    balancerAddress(side, 0),
    ...etcdNames.flatMap((etcd) =>
      [0, 1, 2].flatMap((ordinal) => [
        podAddress(side, etcd, ordinal),
        memberBalancerAddress(side, etcd, ordinal),
      ]),
    ),
  ]);
}

/** As druid names members within a seed; equal in both. */
export function innerName(etcd: EtcdName, ordinal: number): string {
  return `${etcd}-${ordinal}.${etcd}-peer.${demo.namespace}.svc`;
}

/** The pod of an etcd member, by its name. */
export function memberOf(pod: string): { readonly etcd: EtcdName; readonly ordinal: number } | undefined {
  const [, etcd, ordinal] = /^(etcd-main|etcd-events)-(\d)$/.exec(pod) ?? [];
  return etcd === undefined ? undefined : { etcd: etcd as EtcdName, ordinal: Number(ordinal) };
}

/** `/etc/hosts` of a seed. */
export function hostsOf(side: SeedSide): string {
  const lines = etcdNames.flatMap((etcd) =>
    [0, 1, 2].map((ordinal) => `${podAddress(side, etcd, ordinal)} ${innerName(etcd, ordinal)}`),
  );
  return ["127.0.0.1 localhost", ...lines, ""].join("\n");
}
