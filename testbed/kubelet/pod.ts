import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { V1Container, V1ContainerStatus, V1Pod, V1PodCondition } from "@kubernetes/client-node";
import type { PodAddresses } from "./addresses.ts";
import { strategicMergePatch } from "./api.ts";
import type { NodeApi } from "./api.ts";
import { ContainerRunner } from "./container.ts";
import type { RestartPolicy } from "./container.ts";
import { sandboxSpec } from "./container-spec.ts";
import type { Programs } from "./programs.ts";
import { insist } from "./retry.ts";
import type { SandboxSpec } from "./sandbox.ts";
import { environmentSources } from "./sources.ts";
import { earlierLife, podStatus } from "./status.ts";
import { tell, wordsOf } from "./tell.ts";
import { namespaceOf, prepareVolumes, watchedSources } from "./volumes.ts";

/** What all pods of a node share. */
export interface PodHost {
  readonly api: NodeApi;
  readonly addresses: PodAddresses;
  readonly programs: Programs;
  readonly hostIP: string;
  readonly nameServer?: string | undefined;
  readonly folders: {
    /** Persistent volume claims. */
    readonly claims: string;
    /** What lives as long as a pod, by its uid. */
    readonly volatile: string;
    /** Logs, by namespace and name of the pod. */
    readonly pods: string;
  };
}

const defaultGraceSeconds = 30;
/** A pod whose object is gone already has nobody left who waits for a graceful end. */
const vanishedGraceMs = 1_000;
const ended = new Set(["Succeeded", "Failed"]);

/** One pod of this node, from the first container to the deletion of its object. */
export class PodRunner {
  readonly uid: string;
  /** Resolves when nothing of the pod is left on this node. */
  readonly done: Promise<void>;
  readonly #host: PodHost;
  readonly #startTime: string;
  readonly #deletion = Promise.withResolvers<{ readonly graceMs: number; readonly deleteObject: boolean }>();
  readonly #initContainers: ContainerRunner[] = [];
  readonly #containers: ContainerRunner[] = [];
  #pod: V1Pod;
  #podIP: string | undefined;
  #terminating = false;
  #conditions: V1PodCondition[];
  #written = "";
  #writing: Promise<void> | undefined;
  #volumes: Promise<Map<string, string>> = Promise.resolve(new Map());

  constructor(host: PodHost, pod: V1Pod) {
    this.#host = host;
    this.#pod = pod;
    this.uid = pod.metadata?.uid ?? "";
    this.#startTime = new Date(pod.status?.startTime ?? Date.now()).toISOString();
    this.#conditions = pod.status?.conditions ?? [];
    this.done = this.#live();
    this.update(pod);
  }

  /** Takes note of a change of the pod's object. */
  update(pod: V1Pod): void {
    this.#pod = pod;
    const { deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata ?? {};
    if (deletionTimestamp !== undefined) {
      const seconds = deletionGracePeriodSeconds ?? defaultGraceSeconds;
      this.#deletion.resolve({ graceMs: seconds * 1_000, deleteObject: true });
    } else if (pod.spec?.readinessGates !== undefined) this.#publish();
  }

  /** The pod's object is gone, or belongs to another pod by now. */
  vanish(): void {
    this.#stopContainers(vanishedGraceMs);
    this.#deletion.resolve({ graceMs: vanishedGraceMs, deleteObject: false });
  }

  /** Ends all containers because the node ends; the pod's object stays as it is. */
  async abandon(graceMs: number): Promise<void> {
    this.#deletion.resolve({ graceMs, deleteObject: false });
    await this.done;
  }

  /** Brings the volumes up to date if the pod shows the object (`configmap/<name>` or `secret/<name>`) in one. */
  refresh(namespace: string, source: string): void {
    if (namespace !== namespaceOf(this.#pod) || this.#podIP === undefined) return;
    if (!watchedSources(this.#pod).has(source)) return;
    this.#prepareVolumes(this.#podIP).catch((error: unknown) => tell(`${this.#name}: ${wordsOf(error)}`));
  }

  get #name(): string {
    return `${namespaceOf(this.#pod)}/${this.#pod.metadata?.name}`;
  }

  get #folder(): string {
    return join(this.#host.folders.volatile, this.uid);
  }

  async #live(): Promise<void> {
    const running = ended.has(this.#pod.status?.phase ?? "") ? Promise.resolve() : this.#run();
    const { graceMs, deleteObject } = await this.#deletion.promise;
    this.#terminating = true;
    this.#stopContainers(graceMs);
    await running;
    // What is left to be written matters to nobody where the object is not deleted by this node.
    if (deleteObject) await this.#writing;
    if (this.#podIP !== undefined) await this.#host.addresses.release(this.#podIP);
    // Data in an emptyDir outlives the node's process, as it outlives the kubelet.
    const folder = deleteObject ? this.#folder : join(this.#folder, "roots");
    await rm(folder, { recursive: true, force: true });
    if (deleteObject) await this.#deleteObject();
  }

  #stopContainers(graceMs: number): void {
    for (const each of [...this.#initContainers, ...this.#containers]) each.stop(graceMs);
  }

  async #deleteObject(): Promise<void> {
    const { name = "" } = this.#pod.metadata ?? {};
    const pod = { name, namespace: namespaceOf(this.#pod) };
    const body = { gracePeriodSeconds: 0, preconditions: { uid: this.uid } };
    await insist(`delete pod ${this.#name}`, () => this.#host.api.core.deleteNamespacedPod({ ...pod, body }));
  }

  async #run(): Promise<void> {
    tell(`pod ${this.#name}: starting`);
    this.#podIP = await this.#host.addresses.take(this.#pod.status?.podIP);
    const { spec, status } = this.#pod;
    const policy = (spec?.restartPolicy ?? "Always") as RestartPolicy;
    for (const container of spec?.initContainers ?? []) {
      if (this.#terminating) return;
      const runner = this.#runner(container, policy === "Never" ? "Never" : "OnFailure", this.#podIP);
      this.#initContainers.push(runner);
      if ((await runner.run()) !== 0) return;
    }
    if (this.#terminating) return;
    const containers = spec?.containers ?? [];
    for (const container of containers) {
      const earlier = status?.containerStatuses?.find(({ name }) => name === container.name);
      this.#containers.push(this.#runner(container, policy, this.#podIP, earlier));
    }
    await Promise.all(this.#containers.map((each) => each.run()));
  }

  #runner(
    container: V1Container,
    restartPolicy: RestartPolicy,
    podIP: string,
    earlier?: V1ContainerStatus,
  ): ContainerRunner {
    return new ContainerRunner({
      container,
      restartPolicy,
      podIP,
      graceMs: (this.#pod.spec?.terminationGracePeriodSeconds ?? defaultGraceSeconds) * 1_000,
      prepare: () => this.#prepare(container, podIP),
      onChange: () => this.#publish(),
      earlier: earlier && earlierLife(earlier),
    });
  }

  async #prepare(container: V1Container, podIP: string): Promise<SandboxSpec> {
    const { api, hostIP, programs, folders, nameServer } = this.#host;
    const pod = this.#pod;
    return await sandboxSpec({
      pod,
      container,
      facts: { podIP, hostIP },
      sources: environmentSources(api, pod),
      programs,
      volumes: await this.#prepareVolumes(podIP),
      podFolder: this.#folder,
      logFolder: join(folders.pods, `${namespaceOf(pod)}_${pod.metadata?.name}`),
      nameServer,
    });
  }

  /** One preparation after the other: two at once would write the same folders. */
  async #prepareVolumes(podIP: string): Promise<Map<string, string>> {
    const { api, hostIP, folders } = this.#host;
    const previous = this.#volumes.catch(() => undefined);
    this.#volumes = previous.then(() =>
      prepareVolumes({
        api,
        pod: this.#pod,
        facts: { podIP, hostIP },
        podFolder: this.#folder,
        claimsFolder: folders.claims,
      }),
    );
    return await this.#volumes;
  }

  /** Writes the present status, and once more if it has changed while it was written. */
  #publish(): void {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    // Changes come in groups: what has changed in the same turn is written together.
    await Promise.resolve();
    for (;;) {
      const status = this.#status();
      const text = JSON.stringify(status);
      if (text === this.#written) return;
      const { name = "" } = this.#pod.metadata ?? {};
      const body = { metadata: { uid: this.uid }, status };
      const pod = { name, namespace: namespaceOf(this.#pod), body };
      const { core } = this.#host.api;
      await insist(`status of pod ${this.#name}`, () =>
        core.patchNamespacedPodStatus(pod, strategicMergePatch),
      );
      this.#written = text;
    }
  }

  #status() {
    const gates = this.#pod.spec?.readinessGates?.map(({ conditionType }) => conditionType) ?? [];
    const others = this.#pod.status?.conditions?.filter(({ type }) => gates.includes(type)) ?? [];
    const view = {
      podIP: this.#podIP,
      hostIP: this.#host.hostIP,
      startTime: this.#startTime,
      conditions: [...others, ...this.#conditions],
      initContainers: this.#initContainers.map((each) => each.view),
      containers: this.#containers.map((each) => each.view),
      terminating: this.#terminating,
    };
    const status = podStatus(this.#pod, view, new Date().toISOString());
    this.#conditions = status.conditions ?? [];
    return status;
  }
}
