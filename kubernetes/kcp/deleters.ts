import type { ApiServer } from "../api-server.ts";
import { pause } from "../wait.ts";
import { isOneOf } from "./families.ts";

/**
 * What is deleted together with all that it holds, and by which work queue. Each deleter looks whether its object is being
 * deleted when it begins, and then deletes by name whatever is in it, some seconds long, even if that object is another one by then
 * (Kubernetes, pkg/controller/namespace/deletion; apiextensions-apiserver, pkg/controller/finalizer; kcp v0.32.3,
 * pkg/reconciler/apis/apibindingdeletion).
 */
const DELETERS = {
  "core/namespaces": "namespace",
  "apiextensions.k8s.io/customresourcedefinitions": "crd_finalizer",
  "apis.kcp.io/apibindings": "kcp-apibindingdeletion",
} as const;

export type Deleter = (typeof DELETERS)[keyof typeof DELETERS];

/** How far behind the store a deleter may be when it looks: that of APIBindings looks into its informer's cache. */
const BEHIND_MS = 1_000;
const LOOK_EVERY_MS = 250;
/** Figures of a queue are not read at one moment, so a run that begins and ends meanwhile may hide another. */
const LOOKS = 2;
/** One that has its work stopped by a finalizer, or by a webhook that hangs, is at it for a minute and more. */
const DEADLINE_MS = 15_000;

/** The deleter that empties objects of a family. */
export function deleterOf(family: string): Deleter | undefined {
  return Object.entries(DELETERS).find(([resource]) => isOneOf([resource], family))?.[1];
}

/**
 * Waits until each of these deleters of a shard has been seen at rest, for a quarter of a minute at most: from then on it deletes by what it sees now, or later.
 * @param replicas of the shard's API server, each of which may run them.
 */
export async function awaitDeleters(
  replicas: readonly ApiServer[],
  deleters: ReadonlySet<Deleter>,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + DEADLINE_MS;
  const left = new Map([...deleters].map((deleter) => [deleter, LOOKS]));
  await pause(BEHIND_MS, signal);
  for (;;) {
    const runs = await Promise.all(replicas.map(async (replica) => await runsAt(replica, signal)));
    for (const [deleter, looks] of left) {
      const isAtRest = runs.every((run) => run.get(deleter) === 0);
      if (isAtRest && looks === 1) left.delete(deleter);
      else left.set(deleter, isAtRest ? looks - 1 : LOOKS);
    }
    if (left.size === 0 || performance.now() > end) return;
    await pause(LOOK_EVERY_MS, signal);
  }
}

const FIGURE =
  /^workqueue_(?<what>queue|work)_duration_seconds_count\{name="(?<queue>[^"]+)"\} (?<count>\S+)$/gm;

/** How many runs of each queue are under way: those that have begun without those that have ended. None where nothing is told. */
async function runsAt(replica: ApiServer, signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
  const runs = new Map<string, number>();
  const answer = await replica.request({ path: "/metrics", signal }).catch(() => undefined);
  signal.throwIfAborted();
  if (answer?.status !== 200) return runs;
  for (const { groups } of answer.body.matchAll(FIGURE)) {
    const { what, queue, count } = groups as { what: string; queue: string; count: string };
    runs.set(queue, (runs.get(queue) ?? 0) + Number(count) * (what === "queue" ? 1 : -1));
  }
  return runs;
}
