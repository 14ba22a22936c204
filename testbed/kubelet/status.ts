import type {
  V1Container,
  V1ContainerState,
  V1ContainerStatus,
  V1Pod,
  V1PodCondition,
  V1PodStatus,
} from "@kubernetes/client-node";

/** What the node knows of one container. Times are RFC 3339, as the API has them. */
export interface ContainerView {
  readonly name: string;
  readonly state: ContainerState;
  readonly lastState?: ContainerState | undefined;
  readonly ready: boolean;
  readonly started: boolean;
  readonly restartCount: number;
}

export type ContainerState =
  | { readonly waiting: { readonly reason: string; readonly message?: string } }
  | { readonly running: { readonly startedAt: string } }
  | {
      readonly terminated: {
        readonly exitCode: number;
        readonly signal?: number;
        readonly reason: string;
        readonly startedAt: string;
        readonly finishedAt: string;
      };
    };

export interface PodView {
  readonly podIP?: string | undefined;
  readonly hostIP: string;
  readonly startTime: string;
  /** The pod's conditions before, its own and others'. */
  readonly conditions: readonly V1PodCondition[];
  readonly initContainers: readonly ContainerView[];
  readonly containers: readonly ContainerView[];
  /** Whether the pod is being taken down: a container that ended is not started again. */
  readonly terminating: boolean;
}

/** A status in the API's JSON; the library's type has `Date` where JSON has text. */
export type PodStatusJson = Omit<V1PodStatus, "startTime"> & { readonly startTime: string };

/** Status of a pod as the kubelet writes it. Transition times of unchanged conditions are kept. */
export function podStatus(pod: V1Pod, view: PodView, now: string): PodStatusJson {
  const spec = pod.spec;
  const address = view.podIP === undefined ? {} : { podIP: view.podIP, podIPs: [{ ip: view.podIP }] };
  return {
    phase: phaseOf(pod, view),
    hostIP: view.hostIP,
    hostIPs: [{ ip: view.hostIP }],
    ...address,
    startTime: view.startTime,
    conditions: conditionsOf(pod, view, now),
    initContainerStatuses: (spec?.initContainers ?? []).map((each) =>
      containerStatus(pod, each, view.initContainers),
    ),
    containerStatuses: (spec?.containers ?? []).map((each) => containerStatus(pod, each, view.containers)),
  };
}

function phaseOf(pod: V1Pod, view: PodView): string {
  const policy = pod.spec?.restartPolicy ?? "Always";
  const failedInit = view.initContainers.some(
    ({ state }) => "terminated" in state && state.terminated.exitCode !== 0,
  );
  if (failedInit && policy === "Never") return "Failed";
  if (view.containers.length === 0 || !isInitialized(pod, view)) return "Pending";
  const ended = view.containers.map(({ state }) =>
    "terminated" in state ? state.terminated.exitCode : undefined,
  );
  if (ended.every((code) => code !== undefined) && (view.terminating || policy !== "Always")) {
    if (ended.every((code) => code === 0)) return "Succeeded";
    if (view.terminating || policy === "Never") return "Failed";
  }
  const begun = view.containers.every(
    ({ state, lastState }) => !("waiting" in state) || lastState !== undefined,
  );
  return begun ? "Running" : "Pending";
}

function isInitialized(pod: V1Pod, view: PodView): boolean {
  const wanted = pod.spec?.initContainers ?? [];
  return wanted.every(({ name }) => {
    const state = view.initContainers.find((each) => each.name === name)?.state;
    return state !== undefined && "terminated" in state && state.terminated.exitCode === 0;
  });
}

function conditionsOf(pod: V1Pod, view: PodView, now: string): V1PodCondition[] {
  const initialized = isInitialized(pod, view);
  const unready = view.containers.filter(({ ready }) => !ready).map(({ name }) => name);
  const known = view.containers.length === (pod.spec?.containers.length ?? 0);
  const containersReady = initialized && known && unready.length === 0;
  const gates = (pod.spec?.readinessGates ?? []).map(({ conditionType }) => conditionType);
  const gatesOpen = gates.every((gate) => conditionOf(view, gate)?.status === "True");
  const values: Record<string, boolean> = {
    PodScheduled: true,
    Initialized: initialized,
    ContainersReady: containersReady,
    Ready: containersReady && gatesOpen,
  };
  return Object.entries(values).map(([type, value]) => condition(view, type, value, unready, now));
}

function condition(
  view: PodView,
  type: string,
  value: boolean,
  unready: readonly string[],
  now: string,
): V1PodCondition {
  const status = value ? "True" : "False";
  const previous = conditionOf(view, type);
  const since = previous?.status === status ? previous.lastTransitionTime : undefined;
  const readiness = type === "Ready" || type === "ContainersReady";
  const message = `containers with unready status: [${unready.join(" ")}]`;
  return {
    type,
    status,
    // JSON text where the library's type has a Date: the patch is sent as it is.
    lastTransitionTime: since ?? (now as unknown as Date),
    // Null takes out what an earlier status had: conditions are merged by the server.
    ...(readiness ? reasonOf(value, message) : {}),
  };
}

function reasonOf(ready: boolean, message: string): { reason?: string; message?: string } {
  const reason = ready ? { reason: null, message: null } : { reason: "ContainersNotReady", message };
  return reason as { reason?: string; message?: string };
}

function conditionOf(view: PodView, type: string): V1PodCondition | undefined {
  return view.conditions.find((each) => each.type === type);
}

function containerStatus(
  pod: V1Pod,
  container: V1Container,
  views: readonly ContainerView[],
): V1ContainerStatus {
  const view = views.find(({ name }) => name === container.name);
  const state = view?.state ?? { waiting: { reason: "PodInitializing" } };
  const begun = view !== undefined && (view.restartCount > 0 || !("waiting" in state));
  return {
    name: container.name,
    image: container.image ?? "",
    imageID: container.image ?? "",
    ...(begun
      ? { containerID: `process://${pod.metadata?.uid}/${container.name}/${view.restartCount}` }
      : {}),
    ready: view?.ready ?? false,
    started: view?.started ?? false,
    restartCount: view?.restartCount ?? 0,
    state: state as unknown as V1ContainerState,
    lastState: (view?.lastState ?? {}) as unknown as V1ContainerState,
  };
}

/** A container that ran when the node ended has died with it: what starts now is a restart. */
export function earlierLife({ restartCount, state }: V1ContainerStatus): {
  restartCount: number;
  lastState?: ContainerState;
} {
  if (state?.waiting !== undefined || state === undefined) return { restartCount };
  const now = new Date().toISOString();
  const startedAt = new Date(state.running?.startedAt ?? state.terminated?.startedAt ?? now).toISOString();
  const terminated = { exitCode: 137, reason: "ContainerStatusUnknown", startedAt, finishedAt: now };
  return { restartCount: restartCount + 1, lastState: { terminated } };
}
