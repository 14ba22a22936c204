import type { ApiServer } from "../../kubernetes/api-server.ts";
import { apply } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { IGNORE_SCALING } from "../statefulset/controllers.ts";
import { REPLICAS } from "../statefulset/seed.ts";
import { EPOCH } from "../claim.ts";
import { requireSameSecrets } from "../secrets.ts";
import type { CarriedOver } from "../types.ts";
import { CONTROLLERS, OTHER_CONTROLLERS, extensionOfSeed, seedsOfGarden } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import { listOrNone } from "./operations.ts";

type Plain = Readonly<Record<string, unknown>>;
interface Carried extends KubeObject {
  readonly metadata: KubeObject["metadata"] & { readonly ownerReferences?: readonly unknown[] };
  readonly type?: string;
  readonly spec?: Plain;
}

interface Kind {
  readonly group: string;
  readonly resource: string;
  readonly kind: string;
  readonly adapt?: (object: Carried) => Plain;
  /** Made once and never changed: it lives a life of its own from then on. */
  readonly once?: true;
}

const KINDS: readonly Kind[] = [
  { group: "v1", resource: "serviceaccounts", kind: "ServiceAccount", adapt: () => ({}) },
  { group: "v1", resource: "secrets", kind: "Secret" },
  { group: "v1", resource: "configmaps", kind: "ConfigMap" },
  { group: "v1", resource: "services", kind: "Service", adapt: service, once: true },
  { group: "rbac.authorization.k8s.io/v1", resource: "roles", kind: "Role" },
  { group: "rbac.authorization.k8s.io/v1", resource: "rolebindings", kind: "RoleBinding" },
  { group: "policy/v1", resource: "poddisruptionbudgets", kind: "PodDisruptionBudget", adapt: specOnly },
  { group: "networking.istio.io/v1", resource: "gateways", kind: "Gateway", adapt: specOnly },
  { group: "networking.istio.io/v1", resource: "virtualservices", kind: "VirtualService", adapt: specOnly },
  { group: "networking.istio.io/v1", resource: "destinationrules", kind: "DestinationRule", adapt: specOnly },
  { group: "networking.istio.io/v1alpha3", resource: "envoyfilters", kind: "EnvoyFilter", adapt: specOnly },
  {
    group: "resources.gardener.cloud/v1alpha1",
    resource: "managedresources",
    kind: "ManagedResource",
    adapt: specOnly,
    once: true,
  },
  { group: "apps/v1", resource: "deployments", kind: "Deployment", adapt: workload, once: true },
  { group: "apps/v1", resource: "statefulsets", kind: "StatefulSet", adapt: workload, once: true },
];

/** Made by a controller of the seed from something else, which makes them at the destination too. */
const MADE = ["resources.gardener.cloud/managed-by", "rehome.dev/etcd"];
const MADE_BY = { "app.kubernetes.io/managed-by": "etcd-druid" };
/** They stay stopped until they are started: the destination's watchdog must not do it before. */
const STOPPED: ReadonlySet<string> = new Set([...CONTROLLERS, ...OTHER_CONTROLLERS]);
const OF_EVERY_NAMESPACE = new Set(["ConfigMap/kube-root-ca.crt", "ServiceAccount/default"]);

/**
 * Copies what gardenlet has made of the Shoot in the source's seed: Secrets as they are (authorities, service account
 * keys, the key of the encryption, and the VPN's tlsauth, which Gardener itself does not persist), workloads with no
 * replicas. What controllers make of other objects is left to them.
 */
export async function copyNamespace(
  garden: ApiServer,
  from: ShootSeed,
  to: ShootSeed,
  signal: AbortSignal,
): Promise<CarriedOver> {
  await copyCluster(garden, from, to, signal);
  let objects = 0;
  for (const kind of KINDS) {
    for (const object of await listed(from, kind, signal)) {
      await copy(to, kind, object, signal);
      objects++;
    }
  }
  const secrets = KINDS.find(({ kind: name }) => name === "Secret")!;
  const here = await listed(from, secrets, signal);
  const where = `between ${from.namespace.name} at ${from.api.name} and at ${to.api.name}`;
  const digest = requireSameSecrets(here, await listed(to, secrets, signal), where);
  return { secrets: here.length, digest, objects };
}

/** What controllers of extensions know of the Shoot; gardenlet makes it for Shoots of its own seed only. */
async function copyCluster(
  garden: ApiServer,
  from: ShootSeed,
  to: ShootSeed,
  signal: AbortSignal,
): Promise<void> {
  const clusters = extensionOfSeed("clusters");
  const cluster = await from.api.find<Carried>({ path: `${clusters}/${from.namespace.name}`, signal });
  if (cluster === undefined) return;
  const seed = await garden.json<Plain>({ path: `${seedsOfGarden}/${to.name}`, signal });
  await apply(to.api, clusters, {
    apiVersion: "extensions.gardener.cloud/v1alpha1",
    kind: "Cluster",
    metadata: { name: cluster.metadata.name },
    spec: { ...cluster.spec, seed },
  } as KubeObject);
}

async function copy(
  { api, namespace }: ShootSeed,
  kind: Kind,
  object: Carried,
  signal: AbortSignal,
): Promise<void> {
  const path = pathOf(kind, namespace.name);
  const { name, labels, annotations } = object.metadata;
  if (kind.once && (await api.find({ path: `${path}/${name}`, signal })) !== undefined) return;
  const adapted = kind.adapt ? kind.adapt(object) : whole(object);
  const own = (adapted["metadata"] ?? {}) as { annotations?: Plain };
  await apply(api, path, {
    apiVersion: kind.group,
    kind: kind.kind,
    ...adapted,
    metadata: { name, labels, annotations: { ...withoutServers(annotations), ...own.annotations } },
  } as KubeObject);
}

async function listed(seed: ShootSeed, kind: Kind, signal: AbortSignal): Promise<readonly Carried[]> {
  const items = await listOrNone<Carried>(seed.api, pathOf(kind, seed.namespace.name), signal);
  return items.filter((object) => isCarried(kind, object));
}

function isCarried({ kind }: Kind, { metadata, type }: Carried): boolean {
  const { name, labels = {}, ownerReferences = [] } = metadata;
  if (OF_EVERY_NAMESPACE.has(`${kind}/${name}`) || type === "kubernetes.io/service-account-token")
    return false;
  if (MADE.some((label) => label in labels)) return false;
  if (Object.entries(MADE_BY).some(([label, value]) => labels[label] === value)) return false;
  return ownerReferences.length === 0;
}

function pathOf({ group, resource }: Kind, namespace: string): string {
  return `${group === "v1" ? "/api" : "/apis"}/${group}/namespaces/${namespace}/${resource}`;
}

function whole({ metadata: _m, ...rest }: Carried): Plain {
  return rest;
}

function specOnly({ spec }: Carried): Plain {
  return { spec };
}

/** Addresses are the seed's own to give. */
function service({ spec = {} }: Carried): Plain {
  const { clusterIP, clusterIPs: _i, healthCheckNodePort: _h, ports, ...rest } = spec;
  const plain = (ports as Plain[] | undefined)?.map(({ nodePort: _n, ...port }) => port);
  return { spec: { ...rest, ports: plain, ...(clusterIP === "None" && { clusterIP }) } };
}

function workload({ spec = {}, metadata }: Carried): Plain {
  const replicas = Number(spec["replicas"] ?? 1);
  const kept = replicas > 0 ? String(replicas) : (metadata.annotations?.[REPLICAS] ?? "0");
  const annotations = { [REPLICAS]: kept, ...(STOPPED.has(metadata.name) && { [IGNORE_SCALING]: "true" }) };
  return { spec: { ...spec, replicas: 0 }, metadata: { annotations } };
}

function withoutServers(annotations: Readonly<Record<string, string>> = {}): Plain {
  const own = [
    EPOCH,
    "deployment.kubernetes.io/revision",
    "kubectl.kubernetes.io/last-applied-configuration",
  ];
  return Object.fromEntries(Object.entries(annotations).filter(([name]) => !own.includes(name)));
}
