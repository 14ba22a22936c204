import type { V1ConfigMap, V1Container, V1Service, V1StatefulSet } from "@kubernetes/client-node";
import { etcdReplicas, labels } from "../names.ts";
import type { EtcdName } from "../names.ts";
import { configMap, podIp, podName, secretVolume, seedMetadata, service } from "./objects.ts";

const image = "registry.example/etcd:3.6.8";
const ports = { client: 2379, peer: 2380, metrics: 2381 } as const;
/** Secrets mounted below /var/etcd. */
const secrets = ["etcd-server", "etcd-peer", "ca-etcd", "ca-etcd-peer"];

/** Names of the members' pods, and of the Services of each. */
export function etcdPods(name: EtcdName): string[] {
  return Array.from({ length: etcdReplicas }, (_, ordinal) => `${name}-${ordinal}`);
}

/** A Service for the API servers, one for clients outside of the seed, and one for each member. */
export function etcdServices(name: EtcdName): V1Service[] {
  const client = { name: "client", port: ports.client };
  return [
    service(`${name}-client`, { type: "ClusterIP", selector: { app: name }, ports: [client] }),
    service(`${name}-client-external`, { type: "LoadBalancer", selector: { app: name }, ports: [client] }),
    ...etcdPods(name).map((pod) => memberService(pod)),
  ];
}

function memberService(pod: string): V1Service {
  return service(pod, {
    type: "ClusterIP",
    selector: { "statefulset.kubernetes.io/pod-name": pod },
    ports: [{ name: "peer", port: ports.peer }],
    // A member is ready once it has found the others, and they find it here.
    publishNotReadyAddresses: true,
  });
}

/** How a member of a new cluster is started. */
export interface FirstMember {
  readonly pod: string;
  /** Unique over all seeds. */
  readonly name: string;
  readonly peerUrl: string;
}

/** One file per pod with the settings of etcd that differ between members, as the container's shell reads it. */
export function etcdBootstrap(name: EtcdName, members: readonly FirstMember[]): V1ConfigMap {
  const initialCluster = members.map((member) => `${member.name}=${member.peerUrl}`).join(",");
  const file = (member: FirstMember) =>
    [
      `ETCD_NAME=${member.name}`,
      `ETCD_INITIAL_ADVERTISE_PEER_URLS=${member.peerUrl}`,
      `ETCD_INITIAL_CLUSTER=${initialCluster}`,
      "ETCD_INITIAL_CLUSTER_STATE=new",
      `ETCD_INITIAL_CLUSTER_TOKEN=${name}`,
      "",
    ].join("\n");
  return configMap(
    seedMetadata(`${name}-bootstrap`),
    Object.fromEntries(members.map((member) => [member.pod, file(member)])),
  );
}

export function etcdStatefulSet(name: EtcdName): V1StatefulSet {
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: seedMetadata(name),
    spec: {
      replicas: etcdReplicas,
      serviceName: name,
      podManagementPolicy: "Parallel",
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { ...labels, app: name } },
        spec: {
          automountServiceAccountToken: false,
          terminationGracePeriodSeconds: 10,
          containers: [etcdContainer()],
          volumes: [
            { name: "bootstrap", configMap: { name: `${name}-bootstrap` } },
            ...secrets.map(secretVolume),
          ],
        },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: "data", labels: { ...labels, app: name } },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Gi" } } },
        },
      ],
    },
  };
}

function etcdContainer(): V1Container {
  return {
    name: "etcd",
    image,
    command: ["/bin/sh", "-c", `set -a; . "/var/etcd/bootstrap/$POD_NAME"; exec etcd "$@"`, "etcd"],
    args: etcdFlags(),
    env: [podName, podIp],
    ports: Object.entries(ports).map(([name, containerPort]) => ({ name, containerPort })),
    // False on a learner: the Service for clients leads to voters only.
    readinessProbe: {
      httpGet: { path: "/readyz", port: ports.metrics },
      periodSeconds: 1,
      timeoutSeconds: 5,
      failureThreshold: 3,
    },
    volumeMounts: [
      { name: "data", mountPath: "/var/etcd/data" },
      { name: "bootstrap", mountPath: "/var/etcd/bootstrap" },
      ...secrets.map((name) => ({ name, mountPath: `/var/etcd/${name}` })),
    ],
  };
}

function etcdFlags(): string[] {
  return [
    "--data-dir=/var/etcd/data",
    `--listen-client-urls=https://$(POD_IP):${ports.client}`,
    `--advertise-client-urls=https://$(POD_IP):${ports.client}`,
    `--listen-peer-urls=https://$(POD_IP):${ports.peer}`,
    `--listen-metrics-urls=http://$(POD_IP):${ports.metrics}`,
    "--cert-file=/var/etcd/etcd-server/tls.crt",
    "--key-file=/var/etcd/etcd-server/tls.key",
    "--trusted-ca-file=/var/etcd/ca-etcd/ca.crt",
    "--client-cert-auth",
    "--peer-cert-file=/var/etcd/etcd-peer/tls.crt",
    "--peer-key-file=/var/etcd/etcd-peer/tls.key",
    "--peer-trusted-ca-file=/var/etcd/ca-etcd-peer/ca.crt",
    "--peer-client-cert-auth",
    // A peer of the other seed comes from behind that seed's address, which its certificate does not name.
    "--peer-skip-client-san-verification",
    "--heartbeat-interval=100",
    "--election-timeout=2000",
    // As in the other test beds: a killed process loses nothing by it, and one disk serves twelve members.
    "--unsafe-no-fsync",
    // API servers compact by themselves.
    "--auto-compaction-retention=0",
    "--log-level=info",
  ];
}
