import type { V1Container, V1EnvVar, V1Pod, V1Service } from "@kubernetes/client-node";

/** Reads of the API that an environment depends on; undefined where there is no such object or key. */
export interface EnvironmentSources {
  configMapKey(name: string, key: string): Promise<string | undefined>;
  secretKey(name: string, key: string): Promise<string | undefined>;
  /** Services of the pod's namespace, and `kubernetes` of namespace `default`. */
  services(): Promise<readonly V1Service[]>;
}

/** What is known of the pod beside its object when a container starts. */
export interface PodFacts {
  readonly podIP: string;
  readonly hostIP: string;
}

/** A container cannot start before its sources exist: the kubelet's reason for the waiting state. */
export class MissingSourceError extends Error {
  override readonly name = "MissingSourceError";
}

/**
 * Environment of a container: variables of Services first, then the container's
 * own in their order, in which `$(NAME)` refers to earlier ones.
 * @throws MissingSourceError when a ConfigMap, Secret or key that is not optional is absent
 */
export async function environmentOf(
  pod: V1Pod,
  container: V1Container,
  facts: PodFacts,
  sources: EnvironmentSources,
): Promise<Record<string, string>> {
  const environment =
    pod.spec?.enableServiceLinks === false ? {} : serviceVariables(await sources.services());
  for (const variable of container.env ?? []) {
    const value = await valueOf(variable, pod, facts, sources);
    if (value !== undefined) {
      // What a reference reads is taken as it is, as the kubelet does.
      environment[variable.name] = variable.valueFrom === undefined ? expand(value, environment) : value;
    }
  }
  return environment;
}

async function valueOf(
  variable: V1EnvVar,
  pod: V1Pod,
  facts: PodFacts,
  sources: EnvironmentSources,
): Promise<string | undefined> {
  const { fieldRef, configMapKeyRef, secretKeyRef } = variable.valueFrom ?? {};
  if (fieldRef !== undefined) return fieldOf(pod, fieldRef.fieldPath, facts);
  const reference = configMapKeyRef ?? secretKeyRef;
  if (reference === undefined) return variable.value ?? "";
  const kind = configMapKeyRef === undefined ? "secret" : "configmap";
  const key = [reference.name ?? "", reference.key] as const;
  const value = await (kind === "secret" ? sources.secretKey(...key) : sources.configMapKey(...key));
  if (value === undefined && reference.optional !== true) {
    throw new MissingSourceError(`${kind} "${reference.name}" has no key "${reference.key}"`);
  }
  return value;
}

/** Value of a `fieldRef`. @throws Error for a field that a container cannot ask for */
export function fieldOf(pod: V1Pod, path: string, facts: PodFacts): string {
  const { metadata, spec } = pod;
  const [, kind, key] = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path) ?? [];
  if (key !== undefined) return metadata?.[kind as "labels" | "annotations"]?.[key] ?? "";
  const fields: Record<string, string | undefined> = {
    "metadata.name": metadata?.name,
    "metadata.namespace": metadata?.namespace,
    "metadata.uid": metadata?.uid,
    "spec.nodeName": spec?.nodeName,
    "spec.serviceAccountName": spec?.serviceAccountName,
    "status.podIP": facts.podIP,
    "status.podIPs": facts.podIP,
    "status.hostIP": facts.hostIP,
  };
  const value = fields[path];
  if (value === undefined) throw new Error(`fieldRef ${path} is not known`);
  return value;
}

/** `<SERVICE>_SERVICE_HOST`, `_SERVICE_PORT` and `_SERVICE_PORT_<PORT NAME>` of every Service with an address. */
export function serviceVariables(services: readonly V1Service[]): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const { metadata, spec } of services) {
    const { clusterIP, ports = [] } = spec ?? {};
    const [first] = ports;
    if (!clusterIP || clusterIP === "None" || first === undefined) continue;
    const prefix = `${variableName(metadata?.name ?? "")}_SERVICE`;
    variables[`${prefix}_HOST`] = clusterIP;
    variables[`${prefix}_PORT`] = String(first.port);
    for (const { name, port } of ports) {
      if (name) variables[`${prefix}_PORT_${variableName(name)}`] = String(port);
    }
  }
  return variables;
}

function variableName(name: string): string {
  return name.toUpperCase().replaceAll(/[-.]/g, "_");
}

/** Replaces `$(NAME)` by known variables; `$$` is a dollar sign; unknown names stay as they are. */
export function expand(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\$\$|\$\(([^)]*)\)/g, (whole, name: string | undefined) =>
    name === undefined ? "$" : (variables[name] ?? whole),
  );
}
