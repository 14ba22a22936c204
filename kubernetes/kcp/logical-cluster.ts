import type { ApiServer } from "../api-server.ts";

/** The fields of kcp's LogicalCluster (core.kcp.io/v1alpha1) that a move reads or writes; the rest is carried along. */
export interface LogicalCluster {
  metadata: {
    name: string;
    uid: string;
    annotations?: Record<string, string>;
    labels?: Record<string, string>;
    deletionTimestamp?: string;
    [field: string]: unknown;
  };
  spec?: { owner?: { cluster: string; name: string; resource: string }; [field: string]: unknown };
  status?: { phase?: string; [field: string]: unknown };
  [field: string]: unknown;
}

export const ANNOTATION = {
  cluster: "kcp.io/cluster",
  path: "kcp.io/path",
  /** Name of the shard that hosts the object's cluster, on LogicalCluster and Workspace. */
  shard: "core.kcp.io/shard",
  /** `<cluster>:<name>` of kcp's LogicalClusterMigration that has claimed the cluster. */
  migrating: "internal.kcp.io/migrating",
  inactive: "core.kcp.io/inactive",
  inactiveLegacy: "internal.kcp.io/inactive",
} as const;

export const PHASE_LABEL = "tenancy.kcp.io/phase";

/** On an object that stands for a cluster which its shard has no more: see {@link standInFor}. */
const STAND_IN = "rehome.dev/stand-in";

/** Path of a resource of one cluster; `cluster` is an id or, through a front-proxy, a workspace path. */
export function clusterPath(cluster: string, path: string): string {
  return `/clusters/${encodeURIComponent(cluster).replaceAll("%3A", ":")}${path}`;
}

export function logicalClusterPath(cluster: string): string {
  return clusterPath(cluster, "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster");
}

export async function patchLogicalCluster(server: ApiServer, cluster: string, patch: unknown): Promise<void> {
  await server.json({ method: "PATCH", path: logicalClusterPath(cluster), body: patch });
}

/** Sets (or with null removes) an annotation of the LogicalCluster object. */
export async function annotate(
  server: ApiServer,
  cluster: string,
  name: string,
  value: string | null,
): Promise<void> {
  await patchLogicalCluster(server, cluster, { metadata: { annotations: { [name]: value } } });
}

/** Whether it carries the mark, in either of its names, that makes its shard refuse all requests. */
export function isSuspended({ metadata }: LogicalCluster): boolean {
  const { annotations = {} } = metadata;
  return [ANNOTATION.inactive, ANNOTATION.inactiveLegacy].some((name) => annotations[name] === "true");
}

/** The object without the marks that a fence leaves on it. */
export function withoutFence(object: LogicalCluster): LogicalCluster {
  const {
    [ANNOTATION.migrating]: _m,
    [ANNOTATION.inactive]: _i,
    [ANNOTATION.inactiveLegacy]: _l,
    ...annotations
  } = object.metadata.annotations ?? {};
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/**
 * The object in the state that makes the shard's controller drop the cancelled request contexts of the cluster: phase
 * Inactive without the annotation, which it answers by setting Ready (kcp v0.32.3,
 * pkg/reconciler/core/logicalcluster/logicalcluster_reconcile_phase.go). Label and shard annotation are set as well,
 * because the controller otherwise mends those first and may not come to the phase. One that is being deleted it brings back
 * to Deleting, and drops the cluster's own context with it.
 *
 * The price is one cut of all wildcard watches of that shard, so it is done only where a context is dead.
 */
export function withHealing(object: LogicalCluster, shard: string): LogicalCluster {
  const clean = withoutFence(object);
  return {
    ...clean,
    metadata: {
      ...clean.metadata,
      annotations: { ...clean.metadata.annotations, [ANNOTATION.shard]: shard },
      labels: { ...clean.metadata.labels, [PHASE_LABEL]: "Inactive" },
    },
    status: { ...clean.status, phase: "Inactive" },
  };
}

/** A new object, of nobody's. */
export function logicalCluster(cluster: string): LogicalCluster {
  return {
    apiVersion: "core.kcp.io/v1alpha1",
    kind: "LogicalCluster",
    metadata: {
      name: "cluster",
      uid: crypto.randomUUID(),
      generation: 1,
      creationTimestamp: now(),
      annotations: { [ANNOTATION.cluster]: cluster },
    },
    spec: {},
  };
}

function now(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}

/**
 * An object for a cluster that the shard has no more, in the state that makes its controller drop the cancelled request
 * context of this cluster and of no other: it is being deleted and waits for nothing. Without finalizers kcp deletes no
 * content for it (kcp v0.32.3, logicalcluster_reconcile_phase.go, logicalcluster_resource_deletor.go); phase and label
 * agree, because the controller otherwise mends these first, and are such that nobody is served.
 */
export function standInFor(cluster: string, shard: string): LogicalCluster {
  const object = logicalCluster(cluster);
  const { metadata } = object;
  return {
    ...object,
    metadata: {
      ...metadata,
      deletionTimestamp: now(),
      // With none an update by kcp takes it away, before front-proxies are led back (apiserver, registry/store.go).
      deletionGracePeriodSeconds: 1,
      annotations: { ...metadata.annotations, [ANNOTATION.shard]: shard, [STAND_IN]: "true" },
      labels: { [PHASE_LABEL]: "Unavailable" },
    },
    status: { phase: "Unavailable" },
  };
}

export function isStandIn({ metadata }: LogicalCluster): boolean {
  return metadata.annotations?.[STAND_IN] === "true";
}
