import type {
  V1ConfigMap,
  V1Container,
  V1Deployment,
  V1EnvVar,
  V1ObjectMeta,
  V1Secret,
  V1Service,
  V1ServicePort,
  V1Volume,
} from "@kubernetes/client-node";
import { labels, seedNamespace } from "../names.ts";

/** Image of the programs in testbed/control-plane/programs. */
export const testbedImage = "registry.example/rehome-testbed:1";

/** Metadata of an object of the control plane in its seed. */
export function seedMetadata(name: string): V1ObjectMeta {
  return { name, namespace: seedNamespace, labels: { ...labels, app: name } };
}

export function secret(metadata: V1ObjectMeta, texts: Readonly<Record<string, string>>): V1Secret {
  return { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", data: inBase64(texts) };
}

export function configMap(metadata: V1ObjectMeta, data: Readonly<Record<string, string>>): V1ConfigMap {
  return { apiVersion: "v1", kind: "ConfigMap", metadata, data: { ...data } };
}

export interface ServiceOptions {
  readonly type: "ClusterIP" | "LoadBalancer";
  readonly selector: Readonly<Record<string, string>>;
  readonly ports: readonly V1ServicePort[];
  readonly publishNotReadyAddresses?: boolean;
}

export function service(name: string, options: ServiceOptions): V1Service {
  const { type, selector, ports, publishNotReadyAddresses = false } = options;
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: seedMetadata(name),
    spec: { type, selector: { ...selector }, ports: [...ports], publishNotReadyAddresses },
  };
}

/**
 * Ready as soon as a command succeeds. It is asked often until then only, since each time starts processes, for which
 * machines with many of these pods have no time to spare.
 */
export function readyWhen(...command: string[]): Pick<V1Container, "startupProbe" | "readinessProbe"> {
  const exec = { command };
  return {
    startupProbe: { exec, periodSeconds: 1, failureThreshold: 3_600 },
    readinessProbe: { exec, periodSeconds: 10 },
  };
}

export interface DeploymentOptions {
  readonly replicas: number;
  readonly strategy?: NonNullable<V1Deployment["spec"]>["strategy"];
  readonly containers: V1Container[];
  readonly volumes?: V1Volume[];
  readonly podLabels?: Readonly<Record<string, string>>;
  /** Pods without one get no token of the seed's API server. */
  readonly serviceAccountName?: string;
  readonly graceSeconds?: number;
}

/** A Deployment whose pods carry its own labels. */
export function deployment(metadata: V1ObjectMeta, options: DeploymentOptions): V1Deployment {
  const { replicas, strategy, containers, volumes = [], serviceAccountName } = options;
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata,
    spec: {
      replicas,
      ...(strategy && { strategy }),
      selector: { matchLabels: { app: metadata.name as string } },
      template: {
        metadata: { labels: { ...metadata.labels, ...options.podLabels } },
        spec: {
          ...(serviceAccountName === undefined
            ? { automountServiceAccountToken: false }
            : { serviceAccountName }),
          terminationGracePeriodSeconds: options.graceSeconds ?? 10,
          containers,
          volumes,
        },
      },
    },
  };
}

export function secretVolume(name: string): V1Volume {
  return { name, secret: { secretName: name } };
}

export const podName = fieldVariable("POD_NAME", "metadata.name");
export const podNamespace = fieldVariable("POD_NAMESPACE", "metadata.namespace");
export const podIp = fieldVariable("POD_IP", "status.podIP");

function fieldVariable(name: string, fieldPath: string): V1EnvVar {
  return { name, valueFrom: { fieldRef: { fieldPath } } };
}

function inBase64(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")]),
  );
}
