import type { Difference } from "../../etcd/compare.ts";
import type { Key } from "../../etcd/keys.ts";
import { tokenWithoutAuthority, withoutAnnotation } from "./stored-parts.ts";

const QUOTAS = "/core/resourcequotas/";
const SECRETS = /\/core\/secrets\/[^/]+\/[^/]+\/[^/]+$/;
const ROLES = /\/rbac\.authorization\.k8s\.io\/(clusterroles|clusterrolebindings)\/[^/]+\/[^/]+$/;
/**
 * For whom kcp replicates the object to other shards. In a cluster with APIExports or WorkspaceTypes the destination
 * takes `core.kcp.io` out while the LogicalCluster is not there, and puts it in again when that comes (kcp v0.32.3,
 * pkg/reconciler/core/replicateclusterrole).
 */
const REPLICATE = "internal.kcp.io/replicate";
const ROOT_CA = /\/core\/configmaps\/[^/]+\/[^/]+\/kube-root-ca\.crt$/;

/** kcp's own objects whose status, or these fields of it, every shard that has them writes. */
const WRITTEN = [
  {
    of: /\/apis\.kcp\.io\/apibindings\//,
    fields: ["conditions"],
    what: "conditions and claim labels of APIBinding are",
  },
  {
    of: /\/apis\.kcp\.io\/apiexportendpointslices\//,
    fields: ["conditions", "endpoints", "shardSelector"],
    what: "status of APIExportEndpointSlice is",
  },
  {
    of: /\/(apis\.kcp\.io\/apiexports|tenancy\.kcp\.io\/workspacetypes)\//,
    fields: ["conditions", "virtualWorkspaces"],
    what: "conditions and addresses of APIExport and WorkspaceType are",
  },
];

/**
 * The rule that allows a copied object to differ before the switch, because the destination's own controllers write to
 * it although its LogicalCluster is not there yet; undefined when no rule does.
 */
export function allowedDifference({ key, origin, destination }: Difference): string | undefined {
  if (!origin || !destination) return undefined;
  if (key.includes(QUOTAS)) return "status of ResourceQuota is counted by the destination";
  if (ROOT_CA.test(key)) return "kube-root-ca.crt holds the certificate authority of the shard";
  if (SECRETS.test(key) && isAlike(origin.value, destination.value, tokenWithoutAuthority))
    return "ca.crt of a service account's token holds the certificate authority of the shard";
  const what = writtenByShard(key, origin.value, destination.value);
  return what && `${what} written by the destination`;
}

/**
 * What of kcp's own objects differs between two values of a key, where it is nothing but what every shard's controllers
 * write; undefined when there is another difference, or nobody but users writes to the object.
 */
export function writtenByShard(key: Key, one: Buffer, another: Buffer): string | undefined {
  const written = WRITTEN.find(({ of }) => of.test(key));
  if (written && isAlike(one, another, (value) => withoutStatus(value, written.fields))) return written.what;
  const isRole = ROLES.test(key) && isAlike(one, another, (value) => withoutAnnotation(value, REPLICATE));
  return isRole ? `annotation ${REPLICATE} is` : undefined;
}

/** @param of what is to be compared; undefined when a value cannot be read. */
function isAlike(one: Buffer, another: Buffer, of: (value: Buffer) => string | undefined): boolean {
  const left = of(one);
  return left !== undefined && left === of(another);
}

function withoutStatus(value: Buffer, fields: readonly string[]): string | undefined {
  // Custom resources are JSON, unless they are encrypted.
  if (!value.toString("latin1", 0, 1).startsWith("{")) return undefined;
  const { metadata, spec, status } = JSON.parse(value.toString()) as {
    metadata?: Record<string, unknown>;
    spec?: unknown;
    status?: Record<string, unknown>;
  };
  const left = { ...status, ...Object.fromEntries(fields.map((field) => [field, null])) };
  const labels = withoutClaims(metadata?.["labels"] ?? {});
  // What kcp's controllers write to the status may count as a generation, with the same spec.
  const named = { ...metadata, managedFields: null, generation: null, labels };
  return JSON.stringify([sorted(named), spec, sorted(left)]);
}

/**
 * Labels for the providers that an object is claimed by. Each shard's controller sets them, and the destination's may be
 * quicker for an object that has just been made (kcp v0.32.3, pkg/reconciler/apis/permissionclaimlabel).
 */
const CLAIMED = "claimed.internal.apis.kcp.io/";

function withoutClaims(labels: object): unknown {
  return sorted(Object.fromEntries(Object.entries(labels).filter(([name]) => !name.startsWith(CLAIMED))));
}

/** A field that one side lacks must not change the order of the others. */
function sorted(object: Record<string, unknown>): unknown {
  return Object.entries(object).toSorted(([a], [b]) => (a < b ? -1 : 1));
}
