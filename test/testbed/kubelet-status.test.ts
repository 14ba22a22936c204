import type { V1Pod } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { podStatus } from "../../testbed/kubelet/status.ts";
import type { ContainerView, PodView } from "../../testbed/kubelet/status.ts";

const terminated = (exitCode: number) => ({
  terminated: { exitCode, reason: "Error", startedAt: "t1", finishedAt: "t2" },
});

const conditions = (status: ReturnType<typeof podStatus>) =>
  Object.fromEntries((status.conditions ?? []).map(({ type, status: value }) => [type, value]));

const spec = { containers: [{ name: "c", image: "i" }], initContainers: [{ name: "first" }] };
const pod: V1Pod = { metadata: { uid: "u" }, spec };
const running: ContainerView = {
  name: "c",
  state: { running: { startedAt: "t1" } },
  ready: true,
  started: true,
  restartCount: 0,
};
const first: ContainerView = { ...running, name: "first", state: terminated(0), ready: false };
const view: PodView = {
  podIP: "10.75.1.130",
  hostIP: "10.75.1.2",
  startTime: "t0",
  conditions: [],
  initContainers: [first],
  containers: [running],
  terminating: false,
};

const withEnd = (exitCode: number, terminating = false): PodView => ({
  ...view,
  terminating,
  containers: [{ ...running, state: terminated(exitCode) }],
});

describe("pod status", () => {
  it("is running and ready", () => {
    const status = podStatus(pod, view, "now");
    expect(status.phase).toBe("Running");
    expect(conditions(status)).toEqual({
      PodScheduled: "True",
      Initialized: "True",
      ContainersReady: "True",
      Ready: "True",
    });
  });

  it("is pending while init containers run", () => {
    const status = podStatus(
      pod,
      { ...view, initContainers: [{ ...first, state: running.state }], containers: [] },
      "now",
    );
    expect(status.phase).toBe("Pending");
    expect(conditions(status)).toMatchObject({ Initialized: "False", Ready: "False" });
  });

  it("goes on running, but not ready, while a container is started again", () => {
    const waiting = { ...running, ready: false, state: { waiting: { reason: "CrashLoopBackOff" } } };
    const status = podStatus(pod, { ...view, containers: [{ ...waiting, lastState: terminated(1) }] }, "now");
    expect(status.phase).toBe("Running");
    expect(conditions(status)).toMatchObject({ ContainersReady: "False", Ready: "False" });
  });

  it("has an end where the policy allows one, or the pod is taken down", () => {
    const [good, bad, takenDown] = [withEnd(0), withEnd(1), withEnd(1, true)];
    const never: V1Pod = { spec: { ...spec, restartPolicy: "Never" } };
    expect(podStatus(never, good, "now").phase).toBe("Succeeded");
    expect(podStatus(never, bad, "now").phase).toBe("Failed");
    expect(podStatus(pod, bad, "now").phase).toBe("Running");
    expect(podStatus(pod, takenDown, "now").phase).toBe("Failed");
  });

  it("keeps the time of a condition that has not changed", () => {
    const before = podStatus(pod, view, "before");
    const after = podStatus(pod, { ...view, conditions: before.conditions ?? [] }, "after");
    expect(after.conditions).toEqual(before.conditions);
  });
});
