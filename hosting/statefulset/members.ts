import { readRoundTrips } from "../../etcd/membership/round-trip.ts";
import type { RoundTripReading } from "../../etcd/membership/round-trip.ts";
import { merge, removeObject, awaitObjects } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import type { Bootstrap, EtcdCredentials, EtcdInspection, MemberAddress } from "../types.ts";
import { failureDeadlineMs } from "./deadlines.ts";
import { isReady, isRunning, names } from "./seed.ts";
import type { SeedNamespace, Service, Workload } from "./seed.ts";

export const PEER_PORT = 2380;
const CLIENT_PORT = 2379;
const METRICS_PORT = 2381;
export const LOAD_BALANCER = "LoadBalancer";
/** On Services of members that a move has exposed; its value tells whether etcd may have been told. */
export const EXPOSED = "rehome.dev/exposed";
const NOT_TOLD = "not-told";
const TOLD = "true";

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}
interface Secret extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

/** The Service of one member, which a StatefulSet's pod is selected by. */
export const podOf = (etcd: string, ordinal: number) => `${etcd}-${ordinal}`;

export const BOOTSTRAP = "-bootstrap";
/** ConfigMap with one file of ETCD_* settings a pod, which its container reads before it starts etcd. */
export const bootstrapOf = (etcd: string) => `${etcd}${BOOTSTRAP}`;

/** @returns undefined when there is no such StatefulSet. */
export async function inspectEtcd(
  seed: SeedNamespace,
  etcd: string,
  signal: AbortSignal,
): Promise<EtcdInspection | undefined> {
  const workload = await seed.workload("statefulsets", etcd, signal);
  if (workload === undefined) return undefined;
  return {
    name: etcd,
    members: workload.spec.replicas ?? 1,
    heartbeatMs: setting(workload, "heartbeat-interval") ?? 100,
    electionMs: setting(workload, "election-timeout") ?? 1000,
  };
}

/** A flag of etcd in ms, wherever the container has it; etcd's own default applies where it has none. */
function setting(workload: Workload, flag: string): number | undefined {
  const variable = `ETCD_${flag.toUpperCase().replaceAll("-", "_")}`;
  for (const { command = [], args = [], env = [] } of workload.spec.template.spec.containers) {
    const text = [...command, ...args].join(" ");
    const value =
      new RegExp(`--${flag}[= ](\\d+)`).exec(text)?.[1] ?? env.find(({ name }) => name === variable)?.value;
    if (value !== undefined) return Number(value);
  }
  return undefined;
}

export async function credentialsOf(
  seed: SeedNamespace,
  etcd: string,
  signal: AbortSignal,
): Promise<EtcdCredentials> {
  const secret = await seed.api.json<Secret>({ path: `${seed.core("secrets")}/etcd-client`, signal });
  const text = (field: string) => {
    const value = secret.data?.[field];
    if (value === undefined)
      throw new Error(`Secret ${seed.name}/etcd-client at ${seed.api.name} has no ${field}`);
    return Buffer.from(value, "base64").toString();
  };
  return {
    ca: text("ca.crt"),
    cert: text("tls.crt"),
    key: text("tls.key"),
    serverName: `${etcd}-client.${seed.name}.svc`,
  };
}

/**
 * Services that are load balancers already stay as they are. The others are marked, so that they, and only they, are
 * taken back: members of one that has been exposed for long talk to each other through it.
 */
export async function exposeMembers(
  seed: SeedNamespace,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<MemberAddress[]> {
  const expose = async (pod: string): Promise<MemberAddress> => {
    const service = await seed.service(pod, signal);
    if (service?.spec.type !== LOAD_BALANCER) {
      await merge(seed.api, `${seed.core("services")}/${pod}`, {
        metadata: { annotations: { [EXPOSED]: NOT_TOLD } },
        spec: { type: LOAD_BALANCER, ports: ports(["peer", PEER_PORT], ["client", CLIENT_PORT]) },
      });
    }
    const host = await seed.ingressOf(pod, signal);
    return { pod, peerUrl: url(host, PEER_PORT), clientUrl: url(host, CLIENT_PORT) };
  };
  return await Promise.all(
    Array.from({ length: count }, async (_, ordinal) => await expose(podOf(etcd, ordinal))),
  );
}

/** Notes that etcd is about to be told of the members' addresses. */
export async function noteTold(
  seed: SeedNamespace,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  await mergeExposed(seed, await exposedServices(seed, etcd, count, signal), {
    metadata: { annotations: { [EXPOSED]: TOLD } },
  });
}

/** Whether etcd may have been told of addresses that a move has given its members. */
export async function mayBeTold(
  seed: SeedNamespace,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<boolean> {
  const services = await exposedServices(seed, etcd, count, signal);
  return services.some(({ metadata }) => metadata.annotations?.[EXPOSED] === TOLD);
}

export async function hideMembers(
  seed: SeedNamespace,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  await mergeExposed(seed, await exposedServices(seed, etcd, count, signal), {
    metadata: { annotations: { [EXPOSED]: null } },
    spec: { type: "ClusterIP", ports: ports(["peer", PEER_PORT]) },
  });
}

async function exposedServices(
  seed: SeedNamespace,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<Service[]> {
  const pods = Array.from({ length: count }, (_, ordinal) => podOf(etcd, ordinal));
  const services = await Promise.all(pods.map(async (pod) => await seed.service(pod, signal)));
  return services.filter((service) => service?.metadata.annotations?.[EXPOSED] !== undefined) as Service[];
}

async function mergeExposed(
  seed: SeedNamespace,
  services: readonly Service[],
  change: object,
): Promise<void> {
  for (const { metadata } of services)
    await merge(seed.api, `${seed.core("services")}/${metadata.name}`, change);
}

export async function innerPeerUrls(
  seed: SeedNamespace,
  etcd: string,
  count: number,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const urls: Record<string, string> = {};
  for (let ordinal = 0; ordinal < count; ordinal++) {
    const pod = podOf(etcd, ordinal);
    const { spec, metadata } = await seed.api.json<Service>({
      path: `${seed.core("services")}/${pod}`,
      signal,
    });
    const isOuter = spec.type === LOAD_BALANCER && metadata.annotations?.[EXPOSED] === undefined;
    const host = isOuter ? await seed.ingressOf(pod, signal) : spec.clusterIP;
    if (host === undefined)
      throw new Error(`Service ${seed.name}/${pod} at ${seed.api.name} has no cluster IP`);
    urls[pod] = url(host, PEER_PORT);
  }
  return urls;
}

export async function startMember(
  seed: SeedNamespace,
  etcd: string,
  ordinal: number,
  bootstrap: Bootstrap,
  signal: AbortSignal,
): Promise<void> {
  const pod = podOf(etcd, ordinal);
  await merge<ConfigMap>(seed.api, `${seed.core("configmaps")}/${bootstrapOf(etcd)}`, {
    data: { [pod]: settings(etcd, bootstrap) },
  });
  const workload = await seed.workload("statefulsets", etcd, signal);
  await seed.scale("statefulsets", etcd, Math.max(workload?.spec.replicas ?? 0, ordinal + 1), signal);
  await seed.awaitPod(
    pod,
    "runs",
    (found) => isRunning(found) || (found?.status?.phase ?? "no pod yet"),
    signal,
  );
}

/** Lines of shell assignments; etcd ignores all of them once its data directory says who it is. */
function settings(etcd: string, { name, peerUrl, initialCluster }: Bootstrap): string {
  const values = {
    ETCD_NAME: name,
    ETCD_INITIAL_ADVERTISE_PEER_URLS: peerUrl,
    ETCD_INITIAL_CLUSTER: initialCluster.join(","),
    ETCD_INITIAL_CLUSTER_STATE: "existing",
    ETCD_INITIAL_CLUSTER_TOKEN: etcd,
  };
  return Object.entries(values)
    .map(([variable, value]) => `${variable}='${value}'\n`)
    .join("");
}

export async function awaitMemberReady(
  seed: SeedNamespace,
  etcd: string,
  ordinal: number,
  signal: AbortSignal,
): Promise<void> {
  await seed.awaitPod(
    podOf(etcd, ordinal),
    "is ready",
    (pod) => isReady(pod) || (pod ? "not ready" : "no pod"),
    signal,
  );
}

export async function stopMembers(
  seed: SeedNamespace,
  etcd: string,
  keep: number,
  signal: AbortSignal,
): Promise<void> {
  const workload = await seed.workload("statefulsets", etcd, signal);
  if (workload === undefined) return;
  const { replicas = 1, selector, template: _template } = workload.spec;
  await seed.scale("statefulsets", etcd, Math.min(replicas, keep), signal);
  const gone = (objects: readonly KubeObject[]) => {
    const left = objects.filter((pod) => ordinalOf(pod) >= keep);
    return left.length === 0 || `${names(left)} still there`;
  };
  await seed.awaitPods(selector.matchLabels, `the members of ${etcd} from ${keep} on are gone`, gone, signal);
  // Not before the pods are gone: a member that starts again without its data would vote with a mind that forgot.
  const claims = { path: seed.core("persistentvolumeclaims"), labels: selector.matchLabels };
  const claimsLeft = (objects: readonly KubeObject[]) => objects.filter((claim) => ordinalOf(claim) >= keep);
  const found = await awaitObjects(seed.api, claims, () => true, {
    what: "the claims are listed",
    deadlineMs: failureDeadlineMs,
    signal,
  });
  for (const claim of claimsLeft(found))
    await removeObject(seed.api, `${claims.path}/${claim.metadata.name}`);
  await awaitObjects(
    seed.api,
    claims,
    (objects) => claimsLeft(objects).length === 0 || `${names(claimsLeft(objects))} still there`,
    {
      what: `the data of ${etcd} is deleted`,
      deadlineMs: failureDeadlineMs,
      signal,
    },
  );
}

/** What a member has measured of its peers; undefined where it cannot be asked. */
export async function peerRoundTrips(
  seed: SeedNamespace,
  etcd: string,
  ordinal: number,
  peers: readonly string[],
  signal: AbortSignal,
): Promise<RoundTripReading | undefined> {
  const path = `${seed.core("pods")}/http:${podOf(etcd, ordinal)}:${METRICS_PORT}/proxy/metrics`;
  const { status, body } = await seed.api.request({ path, signal });
  return status === 200 ? readRoundTrips(body, peers) : undefined;
}

function ordinalOf({ metadata }: KubeObject): number {
  return Number(/-(\d+)$/.exec(metadata.name)?.[1] ?? -1);
}

function ports(...list: readonly (readonly [name: string, port: number])[]) {
  return list.map(([name, port]) => ({ name, port, targetPort: port, protocol: "TCP" }));
}

function url(host: string, port: number): string {
  return `https://${host}:${port}`;
}
