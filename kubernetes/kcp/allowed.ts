import type { Difference } from "../../etcd/compare.ts";
import type { Key } from "../../etcd/keys.ts";
import { quotaWithoutStatus, tokenWithoutAuthority, withoutAnnotation } from "./stored-parts.ts";

const QUOTAS = /\/core\/resourcequotas\/[^/]+\/[^/]+\/[^/]+$/;
const SECRETS = /\/core\/secrets\/[^/]+\/[^/]+\/[^/]+$/;
const ROLES = /\/rbac\.authorization\.k8s\.io\/(clusterroles|clusterrolebindings)\/[^/]+\/[^/]+$/;
/**
 * For whom kcp replicates the object to other shards. In a cluster with APIExports or WorkspaceTypes the destination
 * takes `core.kcp.io` out while the LogicalCluster is not there, and puts it in again when that comes (kcp v0.32.3,
 * pkg/reconciler/core/replicateclusterrole).
 */
const REPLICATE = "internal.kcp.io/replicate";
const ROOT_CA = /\/core\/configmaps\/[^/]+\/[^/]+\/kube-root-ca\.crt$/;

/**
 * Labels for the providers that an object is claimed by. Each shard's controller sets them, and the destination's may be
 * quicker for an object that has just been made (kcp v0.32.3, pkg/reconciler/apis/permissionclaimlabel).
 */
const CLAIMED = "claimed.internal.apis.kcp.io/";
/** What the shard that has an APIExport writes to those of its bindings that it has (pkg/reconciler/apis/extraannotationsync). */
const EXTRA = "extra.apis.kcp.io/";
/**
 * What a claim may leave empty. kcp stores an APIBinding with these or without, by whether its spec or its status was
 * written last: defaults put them in, and admission takes them out of the part that is written
 * (pkg/admission/apibinding: `omitempty`). API servers put them in when they read, so nobody sees the difference.
 */
const MAY_BE_EMPTY = ["group", "identityHash"];

interface Written {
  readonly of: RegExp;
  /** Of the status. */
  readonly fields: readonly string[];
  /** Those of this prefix. */
  readonly annotations?: string;
  /** Lists of permission claims in spec and status, see {@link MAY_BE_EMPTY}. */
  readonly claims?: readonly string[];
  readonly what: string;
}

/** kcp's own objects, and what of them every shard that has them writes. */
const WRITTEN: readonly Written[] = [
  {
    of: /\/apis\.kcp\.io\/apibindings\//,
    fields: ["conditions"],
    annotations: EXTRA,
    claims: ["permissionClaims", "appliedPermissionClaims", "exportPermissionClaims"],
    what: "conditions, claim labels and extra annotations of APIBinding are",
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
  if (QUOTAS.test(key) && isAlike(origin.value, destination.value, quotaWithoutStatus))
    return "status of ResourceQuota is counted by the destination";
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
  if (written && isAlike(one, another, (value) => withoutWritten(value, written))) return written.what;
  const isRole = ROLES.test(key) && isAlike(one, another, (value) => withoutAnnotation(value, REPLICATE));
  return isRole ? `annotation ${REPLICATE} is` : undefined;
}

interface Stored {
  readonly metadata?: Readonly<Record<string, unknown>> & {
    readonly labels?: object;
    readonly annotations?: object;
  };
  readonly spec?: object;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** @param of what is to be compared; undefined when a value cannot be read. */
function isAlike(one: Buffer, another: Buffer, of: (value: Buffer) => string | undefined): boolean {
  const left = of(one);
  return left !== undefined && left === of(another);
}

function withoutWritten(value: Buffer, { fields, annotations, claims = [] }: Written): string | undefined {
  // Custom resources are JSON, unless they are encrypted.
  if (!value.toString("latin1", 0, 1).startsWith("{")) return undefined;
  const { metadata, spec, status } = JSON.parse(value.toString()) as Stored;
  const left = { ...status, ...Object.fromEntries(fields.map((field) => [field, null])) };
  const named = {
    ...metadata,
    managedFields: null,
    // What kcp's controllers write to the status may count as a generation, with the same spec.
    generation: null,
    labels: without(metadata?.labels, CLAIMED),
    annotations: without(metadata?.annotations, annotations),
  };
  return JSON.stringify([sorted(named), withoutEmpty(spec, claims), sorted(withoutEmpty(left, claims))]);
}

/** @param part spec or status, of which the claims are in these fields. */
function withoutEmpty(part: object | undefined, claims: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(part ?? {}).map(([name, value]: [string, unknown]) => [
      name,
      claims.includes(name) && Array.isArray(value) ? value.map(closed) : value,
    ]),
  );
}

function closed(claim: object): unknown {
  return Object.entries(claim).filter(([name, value]) => value !== "" || !MAY_BE_EMPTY.includes(name));
}

function without(named: object | null | undefined, prefix?: string): unknown {
  const names = Object.entries(named ?? {}).filter(
    ([name]) => prefix === undefined || !name.startsWith(prefix),
  );
  return sorted(Object.fromEntries(names));
}

/** A field that one side lacks must not change the order of the others. */
function sorted(object: Record<string, unknown>): unknown {
  return Object.entries(object).toSorted(([a], [b]) => (a < b ? -1 : 1));
}
