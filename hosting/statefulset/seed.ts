import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import { awaitObject, awaitObjects, merge } from "../../kubernetes/objects.ts";
import type { KubeObject, WaitOptions } from "../../kubernetes/objects.ts";
import { missingEpoch } from "../claim.ts";
import { failureDeadlineMs } from "./deadlines.ts";

/** Of a Deployment or StatefulSet, as far as moves care. */
export interface Workload extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly template: { readonly spec: { readonly containers: readonly Container[] } };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
  };
}

export interface Container {
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
}

export interface Pod extends KubeObject {
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly { readonly state?: { readonly running?: object } }[];
  };
}

export interface Service extends KubeObject {
  readonly spec: {
    readonly type?: string;
    readonly clusterIP?: string;
    readonly ports?: readonly { readonly port: number }[];
  };
  readonly status?: {
    readonly loadBalancer?: {
      readonly ingress?: readonly { readonly ip?: string; readonly hostname?: string }[];
    };
  };
}

export type WorkloadKind = "deployments" | "statefulsets";

/** How many replicas a workload had before the move scaled it down, kept beside it. */
export const REPLICAS = "rehome.dev/replicas";

/** The namespace of one control plane in one seed. */
export class SeedNamespace {
  readonly api: ApiServer;
  readonly name: string;
  readonly #epoch: number;

  /** @param epoch of the attempt that works there; none for those who only look. */
  constructor(api: ApiServer, namespace: string, epoch = 0) {
    this.api = api;
    this.name = namespace;
    this.#epoch = epoch;
  }

  core(resource: string): string {
    return `/api/v1/namespaces/${this.name}/${resource}`;
  }

  workloads(kind: WorkloadKind): string {
    return `/apis/apps/v1/namespaces/${this.name}/${kind}`;
  }

  async workload(kind: WorkloadKind, name: string, signal?: AbortSignal): Promise<Workload | undefined> {
    return await this.api.find<Workload>({ path: `${this.workloads(kind)}/${name}`, signal });
  }

  async service(name: string, signal?: AbortSignal): Promise<Service | undefined> {
    return await this.api.find<Service>({ path: `${this.core("services")}/${name}`, signal });
  }

  /**
   * Asks for so many replicas and, when that is none, remembers how many there were. The epoch is written with it, even
   * where the number is right already, so that no earlier attempt scales the workload after.
   * @returns the workload, or undefined when there is none. @throws SupersededError
   */
  async scale(
    kind: WorkloadKind,
    name: string,
    replicas: number,
    signal: AbortSignal,
  ): Promise<Workload | undefined> {
    try {
      return await this.change(`${this.workloads(kind)}/${name}`, replicas, signal);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  protected async change(path: string, replicas: number, signal: AbortSignal): Promise<Workload> {
    const change = (workload: Workload) => {
      const annotations = this.notesFor(workload, replicas);
      const isDone = workload.spec.replicas === replicas && Object.keys(annotations).length === 0;
      return isDone ? undefined : { metadata: { annotations }, spec: { replicas } };
    };
    return await converge<Workload>(this.api, path, change, signal);
  }

  /** The annotations that a workload lacks when it is scaled. @throws SupersededError */
  protected notesFor(workload: Workload, replicas: number): Record<string, string> {
    const { metadata, spec } = workload;
    const before = String(spec.replicas ?? 1);
    const isStop = replicas === 0 && before !== "0" && metadata.annotations?.[REPLICAS] !== before;
    return {
      ...missingEpoch(workload, this.#epoch, `${metadata.name} at ${this.api.name}`),
      ...(isStop && { [REPLICAS]: before }),
    };
  }

  /**
   * Scales to the number of replicas that it had before, and waits until all are ready. Nothing where there is none, and
   * where it stood still before: then nothing was noted.
   */
  async start(name: string, signal: AbortSignal): Promise<void> {
    const workload = await this.workload("deployments", name, signal);
    const replicas =
      (workload?.spec.replicas ?? 1) || Number(workload?.metadata.annotations?.[REPLICAS] ?? 0);
    if (workload === undefined || replicas === 0) return;
    await this.scale("deployments", name, replicas, signal);
    await this.awaitReady(name, replicas, signal);
    // What is scaled later, by its owner, must not be undone by the next move.
    await merge(this.api, `${this.workloads("deployments")}/${name}`, {
      metadata: { annotations: { [REPLICAS]: null } },
    });
  }

  async awaitReady(name: string, replicas: number, signal: AbortSignal): Promise<void> {
    const holds = (workload: Workload | undefined) => {
      const ready = workload?.status?.readyReplicas ?? 0;
      return ready >= replicas || `${ready} of ${replicas} ready`;
    };
    const options = this.#waiting(`${replicas} pods of ${name} are ready`, signal);
    await awaitObject(this.api, { path: this.workloads("deployments"), name }, holds, options);
  }

  /** Scales to none and waits until every pod is gone: an object that is gone has no process left. */
  async stop(kind: WorkloadKind, name: string, signal: AbortSignal): Promise<boolean> {
    const workload = await this.scale(kind, name, 0, signal);
    if (workload === undefined) return false;
    await this.awaitPods(
      workload.spec.selector.matchLabels,
      `no pod of ${name} is left`,
      (pods) => pods.length === 0 || `${names(pods)} still there`,
      signal,
    );
    return true;
  }

  async awaitPods(
    labels: Readonly<Record<string, string>>,
    what: string,
    holds: (pods: readonly Pod[]) => true | string,
    signal: AbortSignal,
  ): Promise<void> {
    await awaitObjects<Pod>(
      this.api,
      { path: this.core("pods"), labels },
      holds,
      this.#waiting(what, signal),
    );
  }

  async awaitPod(
    name: string,
    what: string,
    holds: (pod: Pod | undefined) => true | string,
    signal: AbortSignal,
  ): Promise<void> {
    await awaitObject<Pod>(
      this.api,
      { path: this.core("pods"), name },
      holds,
      this.#waiting(`${name} ${what}`, signal),
    );
  }

  /** The address that the load balancer of a Service was given: an IP address, or a host name. */
  async ingressOf(name: string, signal: AbortSignal): Promise<string> {
    const holds = (service: Service | undefined) =>
      ingress(service) !== undefined || "no ingress address yet";
    const options = this.#waiting(`Service ${name} has an address`, signal);
    const service = await awaitObject(this.api, { path: this.core("services"), name }, holds, options);
    return ingress(service)!;
  }

  #waiting(what: string, signal: AbortSignal): WaitOptions {
    return {
      what: `${what} (${this.api.name}, namespace ${this.name})`,
      deadlineMs: failureDeadlineMs,
      signal,
    };
  }
}

function ingress(service: Service | undefined): string | undefined {
  const [first] = service?.status?.loadBalancer?.ingress ?? [];
  return first?.ip ?? first?.hostname;
}

export function names(objects: readonly KubeObject[]): string {
  return objects.map(({ metadata }) => metadata.name).join(", ");
}

export function isReady(pod: Pod | undefined): boolean {
  return pod?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

export function isRunning(pod: Pod | undefined): boolean {
  const statuses = pod?.status?.containerStatuses ?? [];
  return statuses.length > 0 && statuses.every(({ state }) => state?.running !== undefined);
}
