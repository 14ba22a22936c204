import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import { awaitObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import type { EtcdCredentials, EtcdInspection } from "../types.ts";
import { etcds } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import { podOf } from "./peers.ts";
import type { Operated, Waits } from "./operations.ts";

/** Asks druid to act on a changed spec, where it does not do so by itself; druid takes it away (constants.go). */
export const RECONCILE = { "druid.gardener.cloud/operation": "reconcile" };

/** Take druid's hands off an Etcd, and let others change what it made (constants.go). */
const SUSPEND = "druid.gardener.cloud/suspend-etcd-spec-reconcile";
const UNPROTECT = "druid.gardener.cloud/disable-etcd-component-protection";
export const HOLD_OFF = { [SUSPEND]: "true", [UNPROTECT]: "true" };
export const GO_ON = { [SUSPEND]: null, [UNPROTECT]: null, ...RECONCILE };

export function isHeldOff({ metadata }: Etcd): boolean {
  return metadata.annotations?.[SUSPEND] !== undefined;
}

/** Whether druid has acted on the spec as it is, or is asked to: a request may go with the work that was under way. */
export function isHeeded(etcd: Etcd): boolean {
  const { metadata, status } = etcd;
  const isAsked = Object.keys(RECONCILE).every((name) => metadata.annotations?.[name] !== undefined);
  return !isHeldOff(etcd) && (isAsked || status?.observedGeneration === metadata.generation);
}

interface SecretRef {
  readonly name: string;
  readonly dataKey?: string;
}

interface MemberUrls {
  readonly memberName: string;
  readonly urls: readonly string[];
}

/** Of druid's Etcd (api/core/v1alpha1/etcd.go), as far as moves care. */
export interface Etcd extends Operated {
  readonly spec: {
    readonly replicas: number;
    readonly memberNamePrefix?: string;
    readonly backup: { readonly store?: Readonly<Record<string, unknown>> };
    readonly etcd: {
      readonly peerUrlTls?: object;
      readonly clientUrlTls?: { readonly tlsCASecretRef: SecretRef; readonly clientTLSSecretRef: SecretRef };
      readonly additionalAdvertisedURLs?: { readonly peerURLs?: PeerUrls };
      readonly bootstrapWithExistingCluster?: object;
    };
  };
}

interface PeerUrls {
  /** Says that a member advertises nothing but these: the names inside the seeds are equal on both sides. */
  readonly overrideDefaultURL?: boolean;
  readonly members: readonly MemberUrls[];
}

/** etcd's own defaults, which druid leaves as they are. */
const TIMERS = { heartbeatMs: 100, electionMs: 1000 };

export async function findEtcd(
  { api, namespace }: ShootSeed,
  name: string,
  signal: AbortSignal,
): Promise<Etcd | undefined> {
  return await api.find<Etcd>({ path: `${etcds(namespace.name)}/${name}`, signal });
}

export async function inspectEtcd(
  seed: ShootSeed,
  name: string,
  signal: AbortSignal,
): Promise<EtcdInspection | undefined> {
  const etcd = await findEtcd(seed, name, signal);
  return etcd && { name, members: etcd.spec.replicas, ...TIMERS };
}

/**
 * Whether this druid can let members advertise addresses instead of their names. Both seeds have the same names, and
 * etcd refuses a second member with a peer URL that it knows (druid #1438).
 */
export async function canOverrideUrls(api: ApiServer, signal: AbortSignal): Promise<boolean> {
  interface Schema {
    readonly properties?: Readonly<Record<string, Schema>>;
  }
  interface Definition {
    readonly spec: {
      readonly versions: readonly { readonly schema?: { readonly openAPIV3Schema?: Schema } }[];
    };
  }
  const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/etcds.druid.gardener.cloud";
  const definition = await api.find<Definition>({ path, signal });
  const field = ["spec", "etcd", "additionalAdvertisedURLs", "peerURLs", "overrideDefaultURL"];
  return (definition?.spec.versions ?? []).some(({ schema }) => {
    let at = schema?.openAPIV3Schema;
    for (const name of field) at = at?.properties?.[name];
    return at !== undefined;
  });
}

export async function credentialsOf(
  { api, namespace }: ShootSeed,
  name: string,
  signal: AbortSignal,
): Promise<EtcdCredentials> {
  const etcd = await api.json<Etcd>({ path: `${etcds(namespace.name)}/${name}`, signal });
  const tls = etcd.spec.etcd.clientUrlTls;
  if (tls === undefined)
    throw new Error(`Etcd ${namespace.name}/${name} at ${api.name} has no TLS for clients`);
  const read = async (secret: string, field: string) => {
    const path = `${namespace.core("secrets")}/${secret}`;
    const { data } = await api.json<KubeObject & { data?: Record<string, string> }>({ path, signal });
    if (data?.[field] === undefined)
      throw new Error(`Secret ${namespace.name}/${secret} at ${api.name} has no ${field}`);
    return Buffer.from(data[field], "base64").toString();
  };
  const { tlsCASecretRef: ca, clientTLSSecretRef: client } = tls;
  return {
    ca: await read(ca.name, ca.dataKey ?? "ca.crt"),
    cert: await read(client.name, "tls.crt"),
    key: await read(client.name, "tls.key"),
    serverName: `${name}-client.${namespace.name}.svc`,
  };
}

/** The names that druid gives members inside a seed; the headless Service is `<etcd>-peer`. */
export function innerPeerUrls(etcd: Etcd, namespace: string): Record<string, string> {
  const scheme = etcd.spec.etcd.peerUrlTls ? "https" : "http";
  const { name } = etcd.metadata;
  const ordinals = Array.from({ length: etcd.spec.replicas }, (_, ordinal) => ordinal);
  const url = (pod: string) => `${scheme}://${pod}.${name}-peer.${namespace}.svc:2380`;
  return Object.fromEntries(ordinals.map((ordinal) => [podOf(name, ordinal), url(podOf(name, ordinal))]));
}

export function memberName(prefix: string | undefined, pod: string): string {
  return prefix ? `${prefix}-${pod}` : pod;
}

/**
 * Has druid write the members' addresses into their configuration, or take them out again, and waits until all of
 * them run with it: druid restarts one after the other. Without that a member would go back to its old address when
 * its backup sidecar next starts it.
 * @param urls peer URL by pod; undefined for the names that druid gives.
 */
export async function advertise(
  seed: ShootSeed,
  name: string,
  urls: ReadonlyMap<string, string> | undefined,
  waits: Waits,
): Promise<void> {
  const path = etcds(seed.namespace.name);
  await converge<Etcd>(
    seed.api,
    `${path}/${name}`,
    (etcd) => {
      const { spec } = etcd;
      const peerURLs = urls && peerUrlsOf(spec.memberNamePrefix, urls);
      const found = spec.etcd.additionalAdvertisedURLs?.peerURLs;
      const isSame = JSON.stringify(found && normal(found)) === JSON.stringify(peerURLs);
      if (isSame && isHeeded(etcd)) return undefined;
      const additionalAdvertisedURLs = peerURLs ? { peerURLs } : null;
      return { metadata: { annotations: RECONCILE }, spec: { etcd: { additionalAdvertisedURLs } } };
    },
    waits.signal,
  );
  await awaitEtcd(seed, name, "all members are ready with it", isSettled, waits);
}

/** Whether {@link advertise} has been asked for other addresses than the names that druid gives. */
export function advertises(etcd: Etcd | undefined): boolean {
  return etcd?.spec.etcd.additionalAdvertisedURLs?.peerURLs !== undefined;
}

const normal = ({ members, overrideDefaultURL }: PeerUrls) => ({
  overrideDefaultURL,
  members: members.map((member) => ({ memberName: member.memberName, urls: member.urls })),
});

function peerUrlsOf(prefix: string | undefined, urls: ReadonlyMap<string, string>): PeerUrls {
  const members = [...urls].map(([pod, url]) => ({ memberName: memberName(prefix, pod), urls: [url] }));
  return { overrideDefaultURL: true, members };
}

export async function awaitEtcd(
  seed: ShootSeed,
  name: string,
  what: string,
  holds: (etcd: Etcd | undefined) => true | string,
  { deadlineMs, signal }: Waits,
): Promise<void> {
  const options = { what: `Etcd ${name}: ${what} (${seed.api.name})`, deadlineMs, signal };
  await awaitObject<Etcd>(seed.api, { path: etcds(seed.namespace.name), name }, holds, options);
}

/** druid has seen the spec as it is now, and every member runs with it and is ready. */
export function isSettled(etcd: Etcd | undefined): true | string {
  if (etcd === undefined) return "not there";
  const { status = {}, metadata } = etcd;
  const [annotation] = Object.keys(RECONCILE);
  if (metadata.annotations?.[annotation!] !== undefined) return "druid has not begun";
  if (status.observedGeneration !== metadata.generation)
    return `generation ${status.observedGeneration} observed, ${metadata.generation} is wanted`;
  if (status.lastOperation?.state !== "Succeeded") return `last operation ${status.lastOperation?.state}`;
  for (const type of ["AllMembersUpdated", "AllMembersReady", "Ready"]) {
    const condition = status.conditions?.find((known) => known.type === type);
    if (condition?.status !== "True") return `${type} is ${condition?.status}: ${condition?.message ?? ""}`;
  }
  return true;
}
