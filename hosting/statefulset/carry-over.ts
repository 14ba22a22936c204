import { createHash } from "node:crypto";
import { apply, list } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import type { CarriedOver } from "../types.ts";
import { EPOCH } from "../claim.ts";
import { EXPOSED } from "./members.ts";
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
  { resource: "services", group: "/api/v1", apiVersion: "v1", kind: "Service", adapt: service },
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
  },
  {
    resource: "deployments",
    group: "/apis/apps/v1",
    apiVersion: "apps/v1",
    kind: "Deployment",
    adapt: workload,
  },
];

/**
 * Makes every object of the control plane at the destination as it is at the source, workloads with no replicas.
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
  for (const { resource, group, apiVersion, kind, adapt } of KINDS) {
    const path = (seed: SeedNamespace) => `${group}/namespaces/${seed.name}/${resource}`;
    const { items } = await list<Carried>(source.api, { path: path(source), labels }, signal);
    for (const item of items) {
      objects++;
      // What runs there already must not be stopped by an attempt that comes late.
      const own = `${path(destination)}/${item.metadata.name}`;
      if (adapt === workload && (await destination.api.find({ path: own, signal })) !== undefined) continue;
      await apply(destination.api, path(destination), {
        ...adapt(item),
        apiVersion,
        kind,
        metadata: metadata(item, destination.name),
      });
    }
  }
  const [ours, theirs] = await Promise.all([
    digestOf(source, labels, signal),
    digestOf(destination, labels, signal),
  ]);
  if (ours.digest !== theirs.digest) {
    throw new Error(
      `the Secrets of ${destination.name} at ${destination.api.name} are not those of ${source.api.name}: ${theirs.count} and ${ours.count} of them`,
    );
  }
  return { secrets: ours.count, objects, digest: ours.digest };
}

async function digestOf(seed: SeedNamespace, labels: Readonly<Record<string, string>>, signal: AbortSignal) {
  const { items } = await list<Carried>(seed.api, { path: seed.core("secrets"), labels }, signal);
  const contents = items.map(({ metadata: { name }, data = {} }) => [
    name,
    Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  ]);
  const text = JSON.stringify(contents.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)));
  return { count: items.length, digest: createHash("sha256").update(text).digest("hex") };
}

/** What the move has exposed at the source is what the destination is to have for good, so its mark stays behind. */
function isKept(annotation: string): boolean {
  return (
    annotation !== EXPOSED &&
    annotation !== EPOCH &&
    !/^(kubectl|deployment)\.kubernetes\.io\//.test(annotation)
  );
}

function metadata({ metadata: { name, labels, annotations = {} }, spec }: Carried, namespace: string) {
  const kept = Object.entries(annotations).filter(([key]) => isKept(key));
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
function configMap({ metadata: { name }, data }: Carried) {
  return { data: name.endsWith("-bootstrap") ? {} : data };
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
