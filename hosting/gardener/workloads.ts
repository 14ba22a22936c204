import { awaitObject } from "../../kubernetes/objects.ts";
import { fenceController } from "../statefulset/controllers.ts";
import { REPLICAS, isReady, isRunning } from "../statefulset/seed.ts";
import type { Pod, Workload } from "../statefulset/seed.ts";
import type { ApiServerAddress, StoppedController } from "../types.ts";
import { CONTROLLERS } from "./names.ts";
import type { GardenerLayout } from "./names.ts";
import { ShootNamespace } from "./namespace.ts";
import type { ShootSeed } from "./namespace.ts";
import type { Waits } from "./operations.ts";

/** Stops the controllers that must never run twice, and proves that none of them runs. */
export async function fence(seed: ShootSeed, signal: AbortSignal): Promise<readonly StoppedController[]> {
  const stopped: StoppedController[] = [];
  // One after the other: the autoscaler must be gone before what it commands.
  for (const name of CONTROLLERS) {
    const controller = await fenceController(seed.namespace, name, signal);
    if (controller !== undefined) stopped.push(controller);
  }
  return stopped;
}

/** The VPN server is a Deployment, or a StatefulSet where it is highly available. */
export async function startEither(
  { api, namespace }: ShootSeed,
  name: string,
  { deadlineMs, signal }: Waits,
): Promise<void> {
  await namespace.start(name, signal);
  const set = await namespace.workload("statefulsets", name, signal);
  if (set === undefined) return;
  const replicas = (set.spec.replicas ?? 1) || Number(set.metadata.annotations?.[REPLICAS] ?? 1);
  await namespace.scale("statefulsets", name, replicas, signal);
  const isComplete = (found: Workload | undefined) =>
    (found?.status?.readyReplicas ?? 0) >= replicas ||
    `${found?.status?.readyReplicas ?? 0} of ${replicas} ready`;
  const options = { what: `${name} is ready (${api.name})`, deadlineMs, signal };
  await awaitObject<Workload>(api, { path: namespace.workloads("statefulsets"), name }, isComplete, options);
}

/** Every API server and VPN server of a seed is reached through its ingress gateway, by name. */
export async function ingressOf(
  { api }: ShootSeed,
  { ingress }: GardenerLayout,
  signal: AbortSignal,
): Promise<string> {
  return await new ShootNamespace(api, ingress.namespace).ingressOf(ingress.service, signal);
}

export async function addressOf(
  seed: ShootSeed,
  layout: GardenerLayout,
  signal: AbortSignal,
): Promise<ApiServerAddress> {
  const host = await ingressOf(seed, layout, signal);
  return { url: `https://${host}`, values: [host] };
}

/** Waits until the pod of an etcd member runs, or is ready: as a learner it never is. */
export async function awaitMember(
  { namespace }: ShootSeed,
  pod: string,
  what: "runs" | "is ready",
  signal: AbortSignal,
): Promise<void> {
  const holds = what === "runs" ? runs : ready;
  await namespace.awaitPod(pod, what, holds, signal);
}

function runs(pod: Pod | undefined): true | string {
  return isRunning(pod) || (pod?.status?.phase ?? "no pod yet");
}

function ready(pod: Pod | undefined): true | string {
  return isReady(pod) || (pod ? "not ready" : "no pod");
}
