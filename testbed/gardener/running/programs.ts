import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { EtcdCluster } from "../../../etcd/membership/cluster.ts";
import { MembershipError } from "../../../etcd/membership/errors.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";
import { demo } from "../garden-objects.ts";
import { ApiServerPods } from "./api-server-pods.ts";
import { EtcdPod } from "./etcd-pod.ts";
import type { ControlPlanePki } from "./pki.ts";
import { etcdNames, hostsOf, memberBalancerAddress, memberOf } from "./places.ts";
import type { EtcdName, SeedSide } from "./places.ts";

const TEND_MS = 1_000;

/** What runs in pods, where more is wanted than the pods' objects. */
export interface PodPrograms {
  /** Starts what the pod is for, unless it runs. @returns whether it is for anything here. */
  start(side: SeedSide, pod: KubeObject): Promise<boolean>;
  isReady(side: SeedSide, pod: string): Promise<boolean>;
  /** Returns when it has ended. */
  stop(side: SeedSide, pod: string): Promise<void>;
  /** The address of a Service's load balancer, where what the Service selects listens at one. */
  addressOf(side: SeedSide, selector: Readonly<Record<string, string>>): string | undefined;
}

/** Real etcds and API servers for the pods of the control plane, as processes on addresses of their own. Needs root. */
export class RunningPrograms implements PodPrograms {
  readonly #dir: string;
  readonly #apis: Readonly<Record<SeedSide, ApiServer>>;
  readonly #pki: ControlPlanePki;
  readonly #members = new Map<string, EtcdPod>();
  readonly #stop = new AbortController();
  #tending: Promise<unknown> = Promise.resolve();
  readonly #apiServers: Readonly<Record<SeedSide, ApiServerPods>>;

  private constructor(dir: string, apis: Readonly<Record<SeedSide, ApiServer>>, pki: ControlPlanePki) {
    this.#dir = dir;
    this.#apis = apis;
    this.#pki = pki;
    const pods = (side: SeedSide) =>
      new ApiServerPods(dir, side, pki, async () => await ingressOf(apis[side]));
    this.#apiServers = { source: pods("source"), destination: pods("destination") };
  }

  static start(
    dir: string,
    apis: Readonly<Record<SeedSide, ApiServer>>,
    pki: ControlPlanePki,
  ): RunningPrograms {
    mkdirSync(dir, { recursive: true });
    const programs = new RunningPrograms(dir, apis, pki);
    for (const side of ["source", "destination"] as const)
      writeFileSync(join(dir, `${side}.hosts`), hostsOf(side));
    programs.#tending = Promise.all(etcdNames.map(async (etcd) => await programs.#tend(etcd)));
    return programs;
  }

  /** Client URLs of the members of an etcd that run now, from within their seeds. */
  #endpointsOf(etcd: EtcdName): string[] {
    const keys = [...this.#members.keys()].filter((key) => key.includes(`/${etcd}-`));
    return keys.map((key) => this.#members.get(key)!.endpoint);
  }

  async start(side: SeedSide, { metadata: { name, uid } }: KubeObject): Promise<boolean> {
    if (name.startsWith("kube-apiserver-")) {
      await this.#apiServers[side].start(name);
      return true;
    }
    const member = memberOf(name);
    if (member === undefined) return false;
    const key = `${side}/${name}`;
    if (this.#members.has(key)) return true;
    const pod = new EtcdPod({
      ...member,
      side,
      dir: this.#dir,
      api: this.#apis[side],
      pki: this.#pki,
      hosts: join(this.#dir, `${side}.hosts`),
      claim: await this.#claimOf(side, member.etcd, name, uid!),
    });
    this.#members.set(key, pod);
    await pod.start();
    return true;
  }

  async isReady(side: SeedSide, pod: string): Promise<boolean> {
    if (memberOf(pod) === undefined) return await this.#apiServers[side].isReady();
    return (await this.#members.get(`${side}/${pod}`)?.isReady()) === true;
  }

  async stop(side: SeedSide, pod: string): Promise<void> {
    if (pod.startsWith("kube-apiserver-")) await this.#apiServers[side].stop(pod);
    const key = `${side}/${pod}`;
    const member = this.#members.get(key);
    this.#members.delete(key);
    await member?.stop();
  }

  addressOf(side: SeedSide, selector: Readonly<Record<string, string>>): string | undefined {
    const member = memberOf(selector["statefulset.kubernetes.io/pod-name"] ?? "");
    return member && memberBalancerAddress(side, member.etcd, member.ordinal);
  }

  async stopAll(): Promise<void> {
    this.#stop.abort();
    await this.#tending;
    for (const side of ["destination", "source"] as const) await this.#apiServers[side].stop();
    await Promise.all([...this.#members.values()].map(async (member) => await member.stop()));
  }

  /** A connection to the members of an etcd that run now. */
  open(etcd: EtcdName): EtcdCluster {
    const { ca, cert, key } = this.#pki.etcdClient;
    const tls = {
      ca: readFileSync(ca),
      cert: readFileSync(cert),
      key: readFileSync(key),
      serverName: `${etcd}-client.${demo.namespace}.svc`,
    };
    return new EtcdCluster({ name: etcd, endpoints: this.#endpointsOf(etcd), tls });
  }

  /** What runs beside the members of one etcd. */
  async #tend(etcd: EtcdName): Promise<void> {
    const { signal } = this.#stop;
    let known: { readonly endpoints: string; readonly cluster: EtcdCluster } | undefined;
    while (!signal.aborted) {
      await delay(TEND_MS, undefined, { signal }).catch(() => undefined);
      const endpoints = this.#endpointsOf(etcd).join(" ");
      if (signal.aborted || endpoints === "") continue;
      if (known?.endpoints !== endpoints) {
        known?.cluster.close();
        known = { endpoints, cluster: this.open(etcd) };
      }
      const pods = [...this.#members].filter(([key]) => key.includes(`/${etcd}-`));
      for (const [, pod] of pods) await tendOne(known.cluster, pod);
    }
    known?.cluster.close();
  }

  async #claimOf(side: SeedSide, etcd: EtcdName, pod: string, podUid: string): Promise<string> {
    const path = `/api/v1/namespaces/${demo.namespace}/persistentvolumeclaims/${etcd}-${pod}`;
    const claim = await this.#apis[side].find<KubeObject>({ path });
    return `${side}-${pod}-${claim?.metadata.uid ?? podUid}`;
  }
}

async function tendOne(cluster: EtcdCluster, pod: EtcdPod): Promise<void> {
  try {
    await pod.tend(await cluster.leader());
  } catch (error) {
    // etcd says no, or nobody leads at this moment: the next round looks again.
    if (!(error instanceof MembershipError)) throw error;
  }
}

async function ingressOf(api: ApiServer): Promise<string> {
  interface Service {
    readonly status: { readonly loadBalancer: { readonly ingress: readonly { readonly ip: string }[] } };
  }
  const path = "/api/v1/namespaces/istio-ingress/services/istio-ingressgateway";
  const { status } = await api.json<Service>({ path });
  return status.loadBalancer.ingress[0]!.ip;
}
