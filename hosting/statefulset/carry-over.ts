import { apply, list } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import type { CarriedOver } from "../types.ts";
import { EPOCH } from "../claim.ts";
import { requireSameSecrets } from "../secrets.ts";
import { BOOTSTRAP, EXPOSED } from "./members.ts";
import { REPLICAS } from "./seed.ts";
import type { SeedNamespace } from "./seed.ts";

/** Everything with this label, whose value is the control plane's name, belongs to it and is carried over. */
export const CONTROL_PLANE = "rehome.dev/control-plane";

type Plain = Readonly<Record<string, unknown>>;
interface Carried extends KubeObject {
  readonly spec?: Plain;
  readonly data?: Plain;
}

interface Kind {
  readonly resource: string;
  readonly group: string;
  readonly apiVersion: string;
  readonly kind: string;
  /** The object as it is made at the destination: without what the source's servers have put in. */
  readonly adapt: (object: Carried) => object;
  /** Made once and never changed: it lives a life of its own from then on. */
  readonly once?: true;
}

const whole = ({ metadata: _m, ...rest }: Carried) => rest;

const KINDS: readonly Kind[] = [
  {
    resource: "serviceaccounts",
    group: "/api/v1",
    apiVersion: "v1",
    kind: "ServiceAccount",
    adapt: () => ({}),
  },
  { resource: "secrets", group: "/api/v1", apiVersion: "v1", kind: "Secret", adapt: whole },
  { resource: "configmaps", group: "/api/v1", apiVersion: "v1", kind: "ConfigMap", adapt: configMap },
  { resource: "services", group: "/api/v1", apiVersion: "v1", kind: "Service", adapt: service, once: true },
  {
    resource: "roles",
    group: "/apis/rbac.authorization.k8s.io/v1",
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    adapt: whole,
  },
  {
    resource: "rolebindings",
    group: "/apis/rbac.authorization.k8s.io/v1",
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    adapt: whole,
  },
  {
    resource: "poddisruptionbudgets",
    group: "/apis/policy/v1",
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    adapt: specOnly,
  },
  {
    resource: "statefulsets",
    group: "/apis/apps/v1",
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    adapt: workload,
    once: true,
  },
  {
    resource: "deployments",
    group: "/apis/apps/v1",
    apiVersion: "apps/v1",
    kind: "Deployment",
    adapt: workload,
    once: true,
  },
];

/**
 * Makes every object of the control plane at the destination as it is at the source, workloads with no replicas. Done again,
 * it brings what has changed since.
 * @returns counts, and the digest of the Secrets, which was the same on both sides.
 */
export async function carryOver(
  source: SeedNamespace,
  destination: SeedNamespace,
  controlPlane: string,
  signal: AbortSignal,
): Promise<CarriedOver> {
  const labels = { [CONTROL_PLANE]: controlPlane };
  let objects = 0;
  for (const { resource, group, apiVersion, kind, adapt, once } of KINDS) {
    const path = (seed: SeedNamespace) => `${group}/namespaces/${seed.name}/${resource}`;
    const { items } = await list<Carried>(source.api, { path: path(source), labels }, signal);
    for (const item of items) {
      objects++;
      const own = `${path(destination)}/${item.metadata.name}`;
      const isKept = once ?? (kind === "ConfigMap" && isBootstrap(item));
      if (isKept && (await destination.api.find({ path: own, signal })) !== undefined) continue;
      await apply(destination.api, path(destination), {
        ...adapt(item),
        apiVersion,
        kind,
        metadata: metadata(item, destination.name),
      });
    }
  }
  const ours = await secretsOf(source, labels, signal);
  const where = `between ${source.name} at ${source.api.name} and ${destination.name} at ${destination.api.name}`;
  const digest = requireSameSecrets(ours, await secretsOf(destination, labels, signal), where);
  return { secrets: ours.length, objects, digest };
}

async function secretsOf(
  seed: SeedNamespace,
  labels: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<readonly Carried[]> {
  return (await list<Carried>(seed.api, { path: seed.core("secrets"), labels }, signal)).items;
}

/** What the move has exposed at the source is what the destination is to have for good, so its mark stays behind. */
function goesAlong(annotation: string): boolean {
  return (
    annotation !== EXPOSED &&
    annotation !== EPOCH &&
    !/^(kubectl|deployment)\.kubernetes\.io\//.test(annotation)
  );
}

function metadata({ metadata: { name, labels, annotations = {} }, spec }: Carried, namespace: string) {
  const kept = Object.entries(annotations).filter(([key]) => goesAlong(key));
  const replicas = spec?.["replicas"];
  return {
    name,
    namespace,
    ...(labels && { labels }),
    // One that stands still already has a note of its own, or is to stand still.
    annotations: {
      ...Object.fromEntries(kept),
      ...(typeof replicas === "number" && replicas > 0 && { [REPLICAS]: String(replicas) }),
    },
  };
}

function specOnly({ spec }: Carried) {
  return { spec };
}

/** What members start with is written when they join. */
function configMap(object: Carried) {
  return { data: isBootstrap(object) ? {} : object.data };
}

function isBootstrap(object: Carried): boolean {
  return object.metadata.name.endsWith(BOOTSTRAP);
}

function workload({ spec }: Carried) {
  return { spec: { ...spec, replicas: 0 } };
}

/** Addresses are given out by each seed. */
function service({ spec = {} }: Carried) {
  const {
    clusterIP,
    clusterIPs: _i,
    healthCheckNodePort: _h,
    ipFamilies: _f,
    ipFamilyPolicy: _p,
    loadBalancerIP: _l,
    ports = [],
    ...rest
  } = spec;
  const plain = (ports as readonly Plain[]).map(({ nodePort: _n, ...port }) => port);
  return { spec: { ...rest, ...(clusterIP === "None" && { clusterIP }), ports: plain } };
}
