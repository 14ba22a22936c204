import { setTimeout as delay } from "node:timers/promises";
import { ApiError } from "../../kubernetes/api-server.ts";
import { merge } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { together } from "../../kubernetes/wait.ts";
import type { StoppedController } from "../types.ts";
import type { SeedNamespace } from "./seed.ts";

interface Lease extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly renewTime?: string;
    readonly leaseDurationSeconds?: number;
  };
}

/** Keeps Gardener's dependency watchdog from scaling up again what was stopped on purpose (dependency-watchdog, prober). */
export const IGNORE_SCALING = "dependency-watchdog.gardener.cloud/ignore-scaling";
const SHORTEST_FREEZE_MS = 15_000;

/**
 * Stops a controller and proves that none runs: no pod is left, and the lease that it kept was given back, or has not
 * been renewed for its whole duration (a pod on a node that nobody hears of may live on; client-go's leader election
 * stops it by then).
 */
export async function fenceController(
  seed: SeedNamespace,
  name: string,
  signal: AbortSignal,
): Promise<StoppedController | undefined> {
  const workload = await seed.workload("deployments", name, signal);
  if (workload === undefined) return undefined;
  await merge(seed.api, `${seed.workloads("deployments")}/${name}`, {
    metadata: { annotations: { [IGNORE_SCALING]: "true" } },
  });
  await seed.stop("deployments", name, signal);
  const leaseFrozenMs = await awaitFrozen(seed, name, signal);
  return leaseFrozenMs === undefined ? { name } : { name, leaseFrozenMs };
}

/** @throws Error when a controller has replicas: the caller has not fenced it, or somebody has started it again. */
export async function requireStopped(
  seed: SeedNamespace,
  names: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const name of names) {
    const workload = await seed.workload("deployments", name, signal);
    if ((workload?.spec.replicas ?? 0) > 0)
      throw new Error(`${name} is not stopped at ${seed.api.name}: it must never run twice`);
  }
}

/** Starts all at once: one that does not become ready keeps none of the others waiting. @throws the first of their errors */
export async function startControllers(
  seed: SeedNamespace,
  names: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await together(names, async (name) => await startController(seed, name, signal));
}

async function startController(seed: SeedNamespace, name: string, signal: AbortSignal): Promise<void> {
  await seed.start(name, signal);
  try {
    await merge(seed.api, `${seed.workloads("deployments")}/${name}`, {
      metadata: { annotations: { [IGNORE_SCALING]: null } },
    });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
  }
}

async function awaitFrozen(
  seed: SeedNamespace,
  name: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${seed.name}/leases/${name}`;
  const read = async () => (await seed.api.find<Lease>({ path, signal }))?.spec;
  for (let before = await read(); ;) {
    if (before === undefined) return undefined;
    if (!before.holderIdentity) return 0;
    const wait = Math.max(SHORTEST_FREEZE_MS, (before.leaseDurationSeconds ?? 0) * 1000);
    await delay(wait, undefined, { signal });
    const after = await read();
    if (after === undefined || after.renewTime === before.renewTime) return wait;
    before = after;
  }
}
