import type { V1ConfigMap, V1Deployment, V1Pod, V1Service, V1StatefulSet } from "@kubernetes/client-node";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { apply, awaitObject, awaitObjects } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";

/** An object of these manifests: always with a kind and a name. */
export type Manifest = Pick<V1ConfigMap, "apiVersion" | "kind" | "metadata">;

const readyWithinMs = 120_000;
const collections: Readonly<Record<string, string>> = {
  Namespace: "/api/v1/namespaces",
  Secret: "/api/v1/namespaces/*/secrets",
  ConfigMap: "/api/v1/namespaces/*/configmaps",
  Service: "/api/v1/namespaces/*/services",
  ServiceAccount: "/api/v1/namespaces/*/serviceaccounts",
  Pod: "/api/v1/namespaces/*/pods",
  Role: "/apis/rbac.authorization.k8s.io/v1/namespaces/*/roles",
  RoleBinding: "/apis/rbac.authorization.k8s.io/v1/namespaces/*/rolebindings",
  Deployment: "/apis/apps/v1/namespaces/*/deployments",
  StatefulSet: "/apis/apps/v1/namespaces/*/statefulsets",
};

/** Creates the objects, or changes them into these, all at once. */
export async function applyAll(api: ApiServer, manifests: readonly Manifest[]): Promise<void> {
  await Promise.all(
    manifests.map((manifest) => apply(api, collectionOf(manifest), manifest as unknown as KubeObject)),
  );
}

/** Waits until every replica of these Deployments and StatefulSets, and these Pods, are ready. Throws an Error that names the one that is not. */
export async function awaitReady(api: ApiServer, manifests: readonly Manifest[]): Promise<void> {
  await Promise.all(
    manifests.map((manifest) => {
      const name = manifest.metadata?.name as string;
      const what = `${manifest.kind} ${name} is ready at ${api.name}`;
      const holds = manifest.kind === "Pod" ? podIsReady : replicasAreReady;
      return awaitObject(
        api,
        { path: collectionOf(manifest), name },
        (found) => (found === undefined ? "not there yet" : holds(found as never)),
        waiting(what),
      );
    }),
  );
}

/** Addresses of a Service in its seed. */
export interface ServiceAddresses {
  readonly clusterIp: string;
  /** Of the load balancer, where the Service has one. */
  readonly ingressIp?: string;
}

/** Waits until each Service has its addresses; by name. */
export async function awaitServices(
  api: ApiServer,
  services: readonly V1Service[],
): Promise<ReadonlyMap<string, ServiceAddresses>> {
  const [first] = services;
  const wanted = new Set(services.map(({ metadata }) => metadata?.name));
  const found = await awaitObjects<KubeObject & V1Service>(
    api,
    { path: collectionOf(first as Manifest) },
    (objects) => {
      const ready = objects.filter((object) => wanted.has(object.metadata.name) && addressesOf(object));
      return ready.length === wanted.size || `${ready.length} of ${wanted.size}`;
    },
    waiting("all Services have their addresses"),
  );
  return new Map(
    found.flatMap((object) => {
      const addresses = addressesOf(object);
      return addresses === undefined ? [] : [[object.metadata.name, addresses] as const];
    }),
  );
}

function addressesOf({ spec, status }: V1Service): ServiceAddresses | undefined {
  const clusterIp = spec?.clusterIP;
  const ingressIp = status?.loadBalancer?.ingress?.[0]?.ip;
  if (clusterIp === undefined || (spec?.type === "LoadBalancer" && ingressIp === undefined)) return undefined;
  return { clusterIp, ...(ingressIp !== undefined && { ingressIp }) };
}

function collectionOf({ kind, metadata }: Manifest): string {
  const template = collections[kind as string];
  if (template === undefined) throw new Error(`no manifest is expected to be a ${kind}`);
  return template.replace("*", metadata?.namespace ?? "");
}

function replicasAreReady({ metadata, spec, status }: V1Deployment | V1StatefulSet): true | string {
  const wanted = spec?.replicas ?? 1;
  const current = (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0);
  const ready = current ? (status?.readyReplicas ?? 0) : 0;
  return ready === wanted || `${ready} of ${wanted} ready`;
}

function podIsReady({ status }: V1Pod): true | string {
  const ready = status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True");
  return (ready ?? false) ? true : `phase ${status?.phase}`;
}

function waiting(what: string) {
  return { what, deadlineMs: readyWithinMs, signal: new AbortController().signal };
}
