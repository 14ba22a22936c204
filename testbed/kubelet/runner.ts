import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { V1ConfigMap, V1Pod, V1Secret } from "@kubernetes/client-node";
import { follow } from "./follow.ts";
import type { Followed } from "./follow.ts";
import { PodRunner } from "./pod.ts";
import type { PodHost } from "./pod.ts";
import { insist } from "./retry.ts";
import { tell } from "./tell.ts";

/** Runs all pods of one API server on one node: also those that nobody has given a node. */
export class Runner {
  readonly #host: PodHost;
  readonly #nodeName: string;
  /** By namespace and name: two pods of one name never run at once. */
  readonly #pods = new Map<string, PodRunner>();
  readonly #finished = new Set<string>();
  readonly #binding = new Set<string>();
  #followed: Followed<V1Pod> | undefined;
  #stopped = false;

  constructor(host: PodHost, nodeName: string) {
    this.#host = host;
    this.#nodeName = nodeName;
  }

  /** Takes over the node's pods and follows them. */
  async start(): Promise<void> {
    const { api } = this.#host;
    await mkdir(this.#host.folders.volatile, { recursive: true });
    this.#followed = await follow<V1Pod>(api.config, {
      path: "/api/v1/pods",
      list: () => api.core.listPodForAllNamespaces(),
      onChange: (pod) => this.#see(pod),
      onDelete: (pod) => {
        const runner = this.#pods.get(keyOf(pod));
        if (runner?.uid === pod.metadata?.uid) runner?.vanish();
      },
    });
    await this.#clear(this.#followed.list());
    await follow<V1ConfigMap>(api.config, {
      path: "/api/v1/configmaps",
      list: () => api.core.listConfigMapForAllNamespaces(),
      onChange: (object) => this.#refresh("configmap", object),
      onDelete: () => undefined,
    });
    await follow<V1Secret>(api.config, {
      path: "/api/v1/secrets",
      list: () => api.core.listSecretForAllNamespaces(),
      onChange: (object) => this.#refresh("secret", object),
      onDelete: () => undefined,
    });
  }

  /** Ends all containers. Their pods stay in the API, and a new runner starts them again. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#pods.values()].map((each) => each.abandon(graceMs)));
  }

  #see(pod: V1Pod): void {
    const uid = pod.metadata?.uid ?? "";
    const nodeName = pod.spec?.nodeName;
    if (this.#stopped || this.#finished.has(uid)) return;
    if (nodeName === undefined) void this.#bind(pod);
    if (nodeName !== this.#nodeName) return;
    const key = keyOf(pod);
    const known = this.#pods.get(key);
    if (known === undefined) this.#run(key, pod);
    else if (known.uid === uid) known.update(pod);
    else known.vanish();
  }

  #run(key: string, pod: V1Pod): void {
    const runner = new PodRunner(this.#host, pod);
    this.#pods.set(key, runner);
    const forget = (): void => {
      this.#finished.add(runner.uid);
      this.#pods.delete(key);
      // A pod of the same name may have come while this one was on its way out.
      const next = this.#followed?.list().find((each) => keyOf(each) === key);
      if (next !== undefined) this.#see(next);
    };
    runner.done.then(forget, (error: unknown) => {
      tell(`pod ${key}: ${(error as Error).stack}`);
      forget();
    });
  }

  async #bind(pod: V1Pod): Promise<void> {
    const { name = "", namespace = "", uid = "", deletionTimestamp } = pod.metadata ?? {};
    if (deletionTimestamp !== undefined || this.#binding.has(uid)) return;
    this.#binding.add(uid);
    const target = { apiVersion: "v1", kind: "Node", name: this.#nodeName };
    const body = { metadata: { name, uid }, target };
    await insist(`bind pod ${namespace}/${name}`, () =>
      this.#host.api.core.createNamespacedPodBinding({ name, namespace, body }),
    );
    this.#binding.delete(uid);
  }

  #refresh(kind: "configmap" | "secret", { metadata }: V1ConfigMap | V1Secret): void {
    for (const pod of this.#pods.values())
      pod.refresh(metadata?.namespace ?? "", `${kind}/${metadata?.name}`);
  }

  /** Removes what pods have left that were deleted while no runner was there. */
  async #clear(pods: readonly V1Pod[]): Promise<void> {
    const present = new Set(pods.map(({ metadata }) => metadata?.uid));
    const { volatile } = this.#host.folders;
    for (const uid of await readdir(volatile)) {
      if (!present.has(uid)) await rm(join(volatile, uid), { recursive: true, force: true });
    }
  }
}

function keyOf({ metadata }: V1Pod): string {
  return `${metadata?.namespace}/${metadata?.name}`;
}
