import type { V1Container, V1Deployment, V1Service } from "@kubernetes/client-node";
import { apiServerName, publicLabel, vpnPort } from "../names.ts";
import { deployment, podIp, secretVolume, seedMetadata, service } from "./objects.ts";

const image = "registry.example/kube-apiserver:1.36.3";
const port = 6443;
/** Secrets mounted below /srv/kubernetes. */
const secrets = ["kube-apiserver", "etcd-client"];

/**
 * The public address of the control plane, for which its DNS name stands. Named
 * target ports lead each port to those pods that have it: API servers or the VPN.
 */
export function apiServerService(): V1Service {
  return service("kube-apiserver", {
    type: "LoadBalancer",
    selector: publicLabel,
    ports: [
      { name: "https", port: 443, targetPort: "https" },
      { name: "vpn", port: vpnPort, targetPort: "vpn" },
    ],
  });
}

/** @param serviceRange Service addresses of the moved cluster */
export function apiServerDeployment(serviceRange: string): V1Deployment {
  return deployment(seedMetadata("kube-apiserver"), {
    replicas: 2,
    strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    podLabels: publicLabel,
    // More than the time in which it still serves after it was told to end, and the requests' own time.
    graceSeconds: 40,
    containers: [apiServerContainer(serviceRange)],
    volumes: secrets.map(secretVolume),
  });
}

function apiServerContainer(serviceRange: string): V1Container {
  const probe = (path: string) => ({ httpGet: { path, port, scheme: "HTTPS" }, timeoutSeconds: 15 });
  return {
    name: "kube-apiserver",
    image,
    args: apiServerFlags(serviceRange),
    env: [podIp],
    ports: [{ name: "https", containerPort: port }],
    startupProbe: { ...probe("/livez"), periodSeconds: 1, failureThreshold: 90 },
    readinessProbe: { ...probe("/readyz"), periodSeconds: 1, failureThreshold: 3 },
    livenessProbe: { ...probe("/livez"), periodSeconds: 10, failureThreshold: 5 },
    volumeMounts: secrets.map((name) => ({ name, mountPath: `/srv/kubernetes/${name}` })),
  };
}

function apiServerFlags(serviceRange: string): string[] {
  const own = "/srv/kubernetes/kube-apiserver";
  const etcd = "/srv/kubernetes/etcd-client";
  return [
    "--bind-address=$(POD_IP)",
    `--secure-port=${port}`,
    "--etcd-servers=https://$(ETCD_MAIN_CLIENT_SERVICE_HOST):2379",
    "--etcd-servers-overrides=/events#https://$(ETCD_EVENTS_CLIENT_SERVICE_HOST):2379",
    `--etcd-cafile=${etcd}/ca.crt`,
    `--etcd-certfile=${etcd}/tls.crt`,
    `--etcd-keyfile=${etcd}/tls.key`,
    `--tls-cert-file=${own}/tls.crt`,
    `--tls-private-key-file=${own}/tls.key`,
    `--client-ca-file=${own}/client-ca.crt`,
    `--service-account-key-file=${own}/service-account.pub`,
    `--service-account-signing-key-file=${own}/service-account.key`,
    `--service-account-issuer=https://${apiServerName}`,
    `--encryption-provider-config=${own}/encryption.yaml`,
    `--service-cluster-ip-range=${serviceRange}`,
    "--authorization-mode=Node,RBAC",
    // Pods of the moved cluster use its DNS name; an address of one seed must not be written into it.
    "--endpoint-reconciler-type=none",
    "--shutdown-delay-duration=5s",
    // Moves the connections of busy clients to whatever the DNS name says by then, in seconds.
    "--goaway-chance=0.02",
    "--profiling=false",
  ];
}
