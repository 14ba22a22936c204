import { setTimeout as delay } from "node:timers/promises";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { apply, list, merge, removeObject } from "../../../kubernetes/objects.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";
import type { DriverState } from "./faults.ts";
import { follow, selfOf } from "./follow.ts";

interface Etcd extends KubeObject {
  readonly metadata: KubeObject["metadata"] & { readonly generation: number; readonly finalizers?: string[] };
  readonly spec: {
    readonly replicas: number;
    readonly memberNamePrefix?: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly etcd: {
      readonly bootstrapWithExistingCluster?: { readonly members: readonly object[] };
      readonly additionalAdvertisedURLs?: object;
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly conditions?: readonly { readonly type: string }[];
  };
}
interface StatefulSet extends KubeObject {
  readonly metadata: KubeObject["metadata"] & { readonly generation: number };
  readonly status?: { readonly observedGeneration?: number; readonly updatedReplicas?: number };
}
interface Pod extends KubeObject {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

const finalizer = "druid.gardener.cloud/etcd-druid";
const operation = "druid.gardener.cloud/operation";
const suspend = "druid.gardener.cloud/suspend-etcd-spec-reconcile";
const etcds = "/apis/druid.gardener.cloud/v1alpha1/etcds";
const tasks = "/apis/druid.gardener.cloud/v1alpha1/etcdopstasks";
const stepMs = 20;

/** Answers as etcd-druid v0.38 of one seed, without reconciling specs that nobody asks it to. */
export function driveDruid(
  seed: string,
  api: ApiServer,
  state: DriverState,
  signal: AbortSignal,
): Promise<void>[] {
  const specs = follow<Etcd>(api, etcds, async (etcd) => await driveEtcd(seed, api, etcd, state), signal);
  const statuses = ["/api/v1", "/apis/apps/v1"].map(async (group) => {
    const resource = group === "/api/v1" ? "pods" : "statefulsets";
    await follow<KubeObject>(
      api,
      `${group}/namespaces/${state.namespace}/${resource}`,
      async ({ metadata }) => {
        const name = metadata.labels?.["app.kubernetes.io/part-of"];
        const path = `/apis/druid.gardener.cloud/v1alpha1/namespaces/${state.namespace}/etcds/${name}`;
        const etcd = name && (await api.find<Etcd>({ path }));
        if (etcd) await showMembers(api, etcd);
      },
      signal,
    );
  });
  const snapshots = follow<KubeObject & { status?: { state?: string } }>(
    api,
    tasks,
    async (task) => {
      if (task.status?.state !== undefined) return;
      const self = selfOf(tasks, task);
      const key = `${seed}/etcdopstasks/${task.metadata.name}/Snapshot`;
      const set = async (text: string) => await merge(api, `${self}/status`, { status: { state: text } });
      await set("InProgress");
      await delay(stepMs);
      const fault = await state.pass(key);
      state.done.push(key);
      await set(fault === undefined ? "Succeeded" : "Failed");
    },
    signal,
  );
  return [specs, ...statuses, snapshots];
}

async function driveEtcd(seed: string, api: ApiServer, etcd: Etcd, state: DriverState): Promise<void> {
  const { name, finalizers = [], annotations = {}, deletionTimestamp, generation } = etcd.metadata;
  const self = selfOf(etcds, etcd);
  if (deletionTimestamp !== undefined) {
    if (finalizers.includes(finalizer)) await deleteEtcd(api, etcd, state);
    return;
  }
  const isNew = !finalizers.includes(finalizer);
  if (isNew) await merge(api, self, { metadata: { finalizers: [...finalizers, finalizer] } });
  if (suspend in annotations || (!isNew && annotations[operation] === undefined)) return;
  const key = `${seed}/etcds/${name}/Reconcile`;
  const type = etcd.status === undefined ? "Create" : "Reconcile";
  await setOperation(api, self, type, "Processing");
  await delay(stepMs);
  const fault = await state.pass(key);
  if (fault !== undefined) {
    await setOperation(api, self, type, "Error");
    await delay(stepMs);
  }
  await apply(api, `/apis/apps/v1/namespaces/${state.namespace}/statefulsets`, statefulSet(etcd));
  state.done.push(key);
  await merge(api, self, { metadata: { annotations: { [operation]: null } } });
  await showMembers(api, etcd);
  await setOperation(api, self, type, "Succeeded", generation);
}

async function deleteEtcd(api: ApiServer, etcd: Etcd, { namespace }: DriverState): Promise<void> {
  const { name } = etcd.metadata;
  await removeObject(
    api,
    `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}?propagationPolicy=Background`,
  );
  for (const resource of ["pods", "persistentvolumeclaims"]) {
    const path = `/api/v1/namespaces/${namespace}/${resource}`;
    const labels = { "app.kubernetes.io/part-of": name };
    for (;;) {
      const { items } = await list<KubeObject>(api, { path, labels });
      if (items.length === 0) break;
      for (const { metadata } of items) await removeObject(api, `${path}/${metadata.name}`);
      await delay(stepMs);
    }
  }
  await merge(api, selfOf(etcds, etcd), { metadata: { finalizers: null } });
}

async function setOperation(
  api: ApiServer,
  self: string,
  type: string,
  state: string,
  observedGeneration?: number,
): Promise<void> {
  const lastOperation = {
    type,
    state,
    description: state,
    runID: "1",
    lastUpdateTime: new Date().toISOString(),
  };
  await merge(api, `${self}/status`, {
    status: { lastOperation, ...(observedGeneration !== undefined && { observedGeneration }) },
  });
}

/** Conditions in the order in which druid comes to them: updated, ready, and the whole. */
async function showMembers(api: ApiServer, etcd: Etcd): Promise<void> {
  const { name, namespace } = etcd.metadata;
  const labels = { "app.kubernetes.io/part-of": name };
  const { items } = await list<Pod>(api, { path: `/api/v1/namespaces/${namespace}/pods`, labels });
  const isReady = ({ status }: Pod) =>
    status?.conditions?.some((known) => known.type === "Ready" && known.status === "True") ?? false;
  const readyReplicas = items.filter(isReady).length;
  const all = readyReplicas >= etcd.spec.replicas;
  const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}`;
  const isUpdated = areUpdated(await api.find<StatefulSet>({ path }), etcd.spec.replicas);
  const now = new Date().toISOString();
  const conditions: object[] = [];
  const types = ["AllMembersUpdated", "AllMembersReady", "Ready"];
  if (etcd.spec.etcd.bootstrapWithExistingCluster) types.push("BootstrappedWithExistingCluster");
  for (const type of types) {
    const times = { lastTransitionTime: now, lastUpdateTime: now };
    conditions.push({
      type,
      status: isUpdated && (all || type === "AllMembersUpdated") ? "True" : "False",
      reason: "Members",
      message: `${readyReplicas} ready`,
      ...times,
    });
    const status = { conditions, readyReplicas, replicas: etcd.spec.replicas, currentReplicas: items.length };
    await merge(api, `${selfOf(etcds, etcd)}/status`, { status });
  }
}

function areUpdated(set: StatefulSet | undefined, replicas: number): boolean {
  const { observedGeneration = 0, updatedReplicas = 0 } = set?.status ?? {};
  return set !== undefined && observedGeneration >= set.metadata.generation && updatedReplicas >= replicas;
}

function statefulSet({ metadata: { name }, spec }: Etcd): KubeObject {
  const labels = {
    "app.kubernetes.io/name": name,
    "app.kubernetes.io/part-of": name,
    "app.kubernetes.io/managed-by": "etcd-druid",
  };
  // Members that run begin anew, one after the other, when their configuration changes; joiners come with theirs.
  const { additionalAdvertisedURLs, bootstrapWithExistingCluster } = spec.etcd;
  const configuration = bootstrapWithExistingCluster ? "" : JSON.stringify(additionalAdvertisedURLs ?? {});
  const annotations = { "checksum/etcd-configmap": configuration };
  const claim = {
    metadata: { name, labels },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  };
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name, labels },
    spec: {
      replicas: spec.replicas,
      podManagementPolicy: "Parallel",
      serviceName: `${name}-peer`,
      selector: { matchLabels: { "app.kubernetes.io/name": name } },
      template: {
        metadata: { labels, annotations },
        spec: { containers: [{ name: "etcd", image: "etcd" }] },
      },
      volumeClaimTemplates: [claim],
    },
  } as KubeObject;
}
