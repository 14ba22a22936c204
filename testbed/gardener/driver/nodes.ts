import { setTimeout as delay } from "node:timers/promises";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { apply, merge, removeObject } from "../../../kubernetes/objects.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";
import type { PodPrograms } from "../running/programs.ts";
import { balancerAddress } from "../running/places.ts";
import type { SeedSide } from "../running/places.ts";
import type { DriverState } from "./faults.ts";
import { follow, selfOf } from "./follow.ts";

interface Pod extends KubeObject {
  readonly spec: { readonly nodeName?: string; readonly containers: readonly { readonly name: string }[] };
  readonly status?: { readonly phase?: string };
}
interface Service extends KubeObject {
  readonly spec: { readonly type?: string; readonly selector?: Readonly<Record<string, string>> };
  readonly status?: { readonly loadBalancer?: { readonly ingress?: readonly object[] } };
}

/** Controllers that keep a Lease of their name in their namespace, as the originals do. */
const leaders = ["cluster-autoscaler", "machine-controller-manager", "gardener-resource-manager"];
const stepMs = 15;
const renewMs = 200;
const probeMs = 1_000;

/**
 * Answers as kubelets and load balancers of one seed: pods run, and Services get addresses.
 * @param programs what runs in pods; without it they are objects only.
 */
export function driveNodes(
  seed: SeedSide,
  api: ApiServer,
  state: DriverState,
  signal: AbortSignal,
  programs?: PodPrograms,
): Promise<void>[] {
  const running = new Set<string>();
  state.running.set(seed, running);
  const pods = follow<Pod>(
    api,
    "/api/v1/pods",
    async (pod) => await drivePod({ seed, api, state, signal, programs }, pod),
    signal,
  );
  let next = 0;
  const services = follow<Service>(
    api,
    "/api/v1/services",
    async (service) => {
      if (service.spec.type !== "LoadBalancer" || service.status?.loadBalancer?.ingress !== undefined) return;
      const ip = programs?.addressOf(seed, service.spec.selector ?? {}) ?? balancerAddress(seed, next++);
      const ingress = [{ ip, ipMode: "VIP" }];
      await delay(stepMs);
      await merge(api, `${selfOf("/api/v1/services", service)}/status`, {
        status: { loadBalancer: { ingress } },
      });
    },
    signal,
  );
  return [pods, services, renewLeases(seed, api, state, signal)];
}

interface Node {
  readonly seed: SeedSide;
  readonly api: ApiServer;
  readonly state: DriverState;
  readonly signal: AbortSignal;
  readonly programs: PodPrograms | undefined;
}

async function drivePod(node: Node, pod: Pod): Promise<void> {
  const { seed, api, state, programs } = node;
  const self = selfOf("/api/v1/pods", pod);
  const { name, deletionTimestamp } = pod.metadata;
  const running = state.running.get(seed)!;
  if (deletionTimestamp !== undefined) {
    await delay(stepMs);
    await programs?.stop(seed, name);
    running.delete(name);
    const leader = leaders.find((known) => name.startsWith(`${known}-`));
    if (leader !== undefined && !state.keepLease.has(leader))
      await releaseLease(api, pod.metadata.namespace!, leader);
    await removeObject(api, `${self}?gracePeriodSeconds=0`);
    return;
  }
  if (pod.spec.nodeName === undefined) {
    const target = { apiVersion: "v1", kind: "Node", name: "node-1" };
    const body = { apiVersion: "v1", kind: "Binding", metadata: { name }, target };
    await api.json({ method: "POST", path: `${self}/binding`, body });
    return;
  }
  if (pod.status?.phase === "Running") return;
  await delay(stepMs);
  const isReal = (await programs?.start(seed, pod)) === true;
  begin(seed, name, state);
  await merge(api, `${self}/status`, { status: statusOf(pod, !isReal && !state.unready.has(name)) });
  // Beside the pod's other changes; what breaks here must break the test.
  if (isReal) void showReadiness(node, pod);
}

/** As a kubelet's readiness probe, until the pod is gone. */
async function showReadiness({ seed, api, state, signal, programs }: Node, pod: Pod): Promise<void> {
  const { name, uid } = pod.metadata;
  const self = selfOf("/api/v1/pods", pod);
  for (let shown = false; !signal.aborted; await delay(probeMs)) {
    const isReady = (await programs?.isReady(seed, name)) === true;
    if (isReady === shown) continue;
    const found = await api.find<Pod>({ path: self });
    if (found?.metadata.uid !== uid || !state.running.get(seed)!.has(name)) return;
    await merge(api, `${self}/status`, { status: statusOf(pod, isReady) });
    shown = isReady;
  }
}

function begin(seed: string, name: string, state: DriverState): void {
  state.running.get(seed)!.add(name);
  for (const leader of leaders.filter((known) => name.startsWith(`${known}-`))) {
    for (const [other, pods] of state.running) {
      if (other !== seed && [...pods].some((pod) => pod.startsWith(`${leader}-`)))
        state.overlaps.push(leader);
    }
  }
}

function statusOf({ spec }: Pod, ready: boolean): object {
  const now = new Date().toISOString();
  const conditions = ["Ready", "ContainersReady"].map((type) => ({
    type,
    status: ready ? "True" : "False",
    lastTransitionTime: now,
  }));
  const containerStatuses = spec.containers.map(({ name }) => ({
    name,
    ready,
    restartCount: 0,
    image: "image",
    imageID: "",
    state: { running: { startedAt: now } },
  }));
  return { phase: "Running", startTime: now, conditions, containerStatuses };
}

/** Says that a pod is ready after all, as its kubelet would. */
export async function makeReady(
  api: ApiServer,
  namespace: string,
  name: string,
  state: DriverState,
): Promise<void> {
  state.unready.delete(name);
  const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
  const pod = await api.json<Pod>({ path });
  await merge(api, `${path}/status`, { status: statusOf(pod, true) });
}

/** Writes to Leases, one after the other: a renewal that is late must not undo a release. */
const turns = new Map<ApiServer, Promise<unknown>>();

async function inTurn(api: ApiServer, write: () => Promise<unknown>): Promise<void> {
  const turn = (turns.get(api) ?? Promise.resolve()).then(write, write);
  turns.set(api, turn);
  await turn;
}

/** As client-go's leader election gives a Lease back: without a holder. */
async function releaseLease(api: ApiServer, namespace: string, name: string): Promise<void> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;
  const spec = { holderIdentity: null, leaseDurationSeconds: 1 };
  await inTurn(api, async () => {
    if ((await api.find({ path })) !== undefined) await merge(api, path, { spec });
  });
}

async function renewLeases(
  seed: string,
  api: ApiServer,
  state: DriverState,
  signal: AbortSignal,
): Promise<void> {
  const running = state.running.get(seed)!;
  while (!signal.aborted) {
    for (const pod of running) {
      const leader = leaders.find((known) => pod.startsWith(`${known}-`));
      if (leader === undefined) continue;
      const renew = async () => running.has(pod) && (await setLease(api, state.namespace, leader, pod));
      // A namespace that is being deleted takes none.
      await inTurn(api, renew).catch(() => undefined);
    }
    await delay(renewMs);
  }
}

async function setLease(
  api: ApiServer,
  namespace: string,
  name: string,
  holderIdentity: string,
): Promise<void> {
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  await apply(api, `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`, {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name },
    spec: { holderIdentity, renewTime, leaseDurationSeconds: 15 },
  } as KubeObject);
}
