import type { Owner } from "../stored-object.ts";

/** What kcp v0.32.3's controllers do with a copied object before its LogicalCluster is there decides its turn. */

const FIRST = ["apiextensions.k8s.io/customresourcedefinitions", "apis.kcp.io/apibindings"];

/**
 * A namespace whose `default` ServiceAccount or `kube-root-ca.crt` is missing gets new ones at once, and a token
 * Secret whose ServiceAccount is missing is deleted: these come before namespaces and secrets.
 */
const BEFORE_NAMESPACES = ["core/serviceaccounts", "core/configmaps"];
const NAMESPACES = ["core/namespaces"];

/**
 * Copied in the cutover, just before the fence. A child Workspace whose parent has no LogicalCluster is retried by the
 * workspace controller without a pause; an APIExport, schema or WorkspaceType that two shards hold cannot be resolved
 * by any third shard ("multiple ... found").
 */
const LATE = [
  "tenancy.kcp.io/workspaces",
  "tenancy.kcp.io/workspacetypes",
  "apis.kcp.io/apiexports",
  "apis.kcp.io/apiexportendpointslices",
  "apis.kcp.io/apiresourceschemas",
  "apis.kcp.io/apiconversions",
];

const LOGICAL_CLUSTERS = ["core.kcp.io/logicalclusters"];
const EXPORTS = ["apis.kcp.io/apiexports"];

/** Whether a family is that of one of these resources, of custom resources and bound ones too. */
export function isOneOf(resources: readonly string[], family: string): boolean {
  return resources.some((resource) => family === resource || family.startsWith(`${resource}/`));
}

/** Whether a family is that of the cluster's own object. */
export function isLogicalCluster(family: string): boolean {
  return isOneOf(LOGICAL_CLUSTERS, family);
}

/** Whether a family waits for the cutover. */
export function isLate(family: string): boolean {
  return isOneOf(LATE, family);
}

/** Whether an owner, as a reference names it, is not at the destination before the cutover. */
export function isLateOwner({ apiVersion, kind }: Pick<Owner, "apiVersion" | "kind">): boolean {
  const [group] = apiVersion.split("/");
  return [...LATE, ...LOGICAL_CLUSTERS].includes(`${group}/${kind.toLowerCase()}s`);
}

/** Whether a family is copied and followed from the beginning. */
export function isEarly(family: string): boolean {
  return !isLate(family);
}

/** The order of copying: each stage is complete at the destination before the next begins. */
export function copyStages<R extends { readonly family: string }>(ranges: readonly R[]): R[][] {
  const stageOf = ({ family }: R) => {
    if (isOneOf(FIRST, family)) return 0;
    if (isOneOf(BEFORE_NAMESPACES, family)) return 1;
    return isOneOf(NAMESPACES, family) ? 3 : 2;
  };
  return [0, 1, 2, 3].map((stage) => ranges.filter((range) => stageOf(range) === stage));
}

/**
 * The order of deleting. What other shards cannot resolve while two shards hold it goes first, and of that APIExports: while a
 * shard knows one, it gives it a new APIExportEndpointSlice as soon as that goes. Then namespaces: while a shard
 * knows one, its controllers give it a new `default` ServiceAccount and `kube-root-ca.crt` as soon as these go.
 */
export function cleanupOrder<R extends { readonly family: string }>(ranges: readonly R[]): R[] {
  const turnOf = ({ family }: R) => {
    if (isOneOf(EXPORTS, family)) return 0;
    if (isLate(family)) return 1;
    return isOneOf(NAMESPACES, family) ? 2 : 3;
  };
  return [0, 1, 2, 3].flatMap((turn) => ranges.filter((range) => turnOf(range) === turn));
}
