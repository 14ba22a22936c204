/**
 * The layout of the keys that kcp's API servers keep in etcd.
 *
 *   <prefix>/<group>/<resource>/<cluster>/[<namespace>/]<name>                    built-in resources
 *   <prefix>/<group>/<resource>/customresources/<cluster>/[<namespace>/]<name>    a CRD of the cluster, or a system CRD
 *   <prefix>/<group>/<resource>/<identity>/<cluster>/[<namespace>/]<name>         bound through an APIExport
 *
 * (kcp-dev/kubernetes, staging/src/k8s.io/apiserver/pkg/storage/etcd3/store_kcp.go.) An identity is a SHA-256 in
 * hexadecimal, which no cluster id can be, so the place of the cluster segment follows from the segment before it and
 * never from what a tenant called a namespace or an object.
 */

/** A key, one character per byte (latin1), so that the order of strings is etcd's order of bytes. */
export type Key = string;

/** The keys in `[start, end)`. */
export interface KeyRange {
  readonly start: Key;
  readonly end: Key;
}

/** The keys of one cluster in one family: a resource in one of its layouts. */
export interface ClusterRange extends KeyRange {
  /** `<group>/<resource>`, with `/customresources` or `/<identity>` where the family has it. */
  readonly family: string;
}

export interface ParsedKey {
  readonly family: string;
  readonly cluster: string;
  /** What follows the cluster segment: `[<namespace>/]<name>`. */
  readonly object: string;
}

export const CUSTOM_RESOURCES = "customresources";
/** The family of Secrets. */
export const SECRETS = "core/secrets";
const IDENTITY = /^[0-9a-f]{64}$/;

/** kcp makes ids of lower-case base36 (kcp, pkg/reconciler or admission of Workspaces); `root` and tests use short ones. */
const CLUSTER_ID = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

export function isIdentity(segment: string): boolean {
  return IDENTITY.test(segment);
}

/** Whether `id` can be the id of a logical cluster that may be moved: `system:*` and the reserved segments cannot. */
export function isClusterId(id: string): boolean {
  return CLUSTER_ID.test(id) && id !== CUSTOM_RESOURCES && !isIdentity(id);
}

export function keyFromBuffer(buffer: Buffer): Key {
  return buffer.toString("latin1");
}

export function keyToBuffer(key: Key): Buffer {
  return Buffer.from(key, "latin1");
}

/** A key as a person reads it. */
export function displayKey(key: Key): string {
  return keyToBuffer(key).toString("utf8");
}

/** The smallest key that is greater than every key that starts with `prefix` (etcd's prefix range end). */
export function prefixEnd(prefix: Key): Key {
  for (let i = prefix.length - 1; i >= 0; i--) {
    const code = prefix.charCodeAt(i);
    if (code < 0xff) return prefix.slice(0, i) + String.fromCharCode(code + 1);
  }
  return "\0";
}

export function prefixRange(prefix: Key): KeyRange {
  return { start: prefix, end: prefixEnd(prefix) };
}

/** The key right after `key`: nothing sorts between the two. */
export function successor(key: Key): Key {
  return `${key}\0`;
}

/** Reads a key of the store with registry prefix `prefix` (no slash at its end); undefined for keys of other shapes. */
export function parseKey(prefix: string, key: Key): ParsedKey | undefined {
  if (!key.startsWith(`${prefix}/`)) return undefined;
  const segments = key.slice(prefix.length + 1).split("/");
  const third = segments[2];
  if (third === undefined) return undefined;
  const marked = third === CUSTOM_RESOURCES || isIdentity(third);
  const at = marked ? 3 : 2;
  const cluster = segments[at];
  if (!cluster || segments.length < at + 2) return undefined;
  return { family: segments.slice(0, at).join("/"), cluster, object: segments.slice(at + 1).join("/") };
}

/** All keys of `cluster` in `family`. The range ends with the slash, so a cluster whose id is longer stays out. */
export function clusterRange(prefix: string, family: string, cluster: string): ClusterRange {
  return { family, ...prefixRange(`${prefix}/${family}/${cluster}/`) };
}

/** The LogicalCluster object of a cluster: the key whose appearance at a shard makes the front-proxies route there. */
export function logicalClusterKey(prefix: string, cluster: string): Key {
  return `${prefix}/core.kcp.io/logicalclusters/${CUSTOM_RESOURCES}/${cluster}/cluster`;
}

/** The CRD that serves a bound API on a shard, shared by all bindings of that schema there. */
export function boundCrdKey(prefix: string, schemaUid: string): Key {
  return `${prefix}/apiextensions.k8s.io/customresourcedefinitions/system:bound-crds/${schemaUid}`;
}

/**
 * rehome's own keys for the move of one cluster. They stand beside the registry prefix and not in it, so no API
 * server lists them, and so close to it that one watch covers both.
 */
export function ownKeys(prefix: string, cluster: string) {
  const base = `${prefix}.rehome/${cluster}`;
  return {
    all: prefixRange(`${base}/`),
    lock: `${base}/lock`,
    /** Token of the last attempt that is over, for one that waits to go on after it. */
    over: `${base}/over`,
    cursor: `${base}/cursor`,
    pulse: `${base}/pulse`,
    filler: `${base}/filler`,
    /** Below which revision of the destination no copied key stands: see floor.ts. */
    floor: `${base}/floor`,
    /** When the fence was asked for, until it is off again, and what the switch found: for an attempt after a crash. */
    fence: `${base}/fence`,
    /** Without it, as the attempt has written it, no switch takes effect. */
    armed: `${base}/armed`,
    switched: `${base}/switched`,
    /** When every front-proxy was first seen to serve from the destination. */
    routed: `${base}/routed`,
    late: `${base}/late`,
    /** Below it, a mark for each late write that is at the destination. */
    carried: `${base}/carried`,
    /** Fences that were up and came off again before the one with the switch: see switched.ts. */
    fences: `${base}/fences`,
  } as const;
}

/**
 * Whose turn it is: see turn.ts.
 * @param other names the other shard of those that the turn is about; for what is done to one shard it is left out.
 */
export function turnKey(prefix: string, other?: string): Key {
  return other === undefined ? `${prefix}.rehome/turn` : `${prefix}.rehome/turn.${other}`;
}

/** What the tail watches: the registry and rehome's own keys, in one range and therefore in one order. */
export function watchedRange(prefix: string): KeyRange {
  return { start: `${prefix}.rehome/`, end: prefixEnd(`${prefix}/`) };
}
