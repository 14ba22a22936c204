import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSmallCluster } from "./kubelet-cluster.ts";
import type { SmallCluster } from "./kubelet-cluster.ts";
import { Kubectl, processesWith, until } from "./kubelet-kubectl.ts";
import { answering, configMap, container, pod, ready, workload } from "./kubelet-workloads.ts";

const run = promisify(execFile);

/** Output of a command in the container whose command line contains a text. */
async function insideOf(mark: string, command: string): Promise<string> {
  const pids = await processesWith(mark);
  const args = [`--target=${pids.at(-1)}`, "--mount", "--pid", "--root", "sh", "-c", command];
  return (await run("nsenter", args)).stdout;
}

describe("a node that runs pods as processes", () => {
  let dir: string;
  let cluster: SmallCluster;
  let kubectl: Kubectl;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "kubt-"));
    cluster = await startSmallCluster(dir, 91);
    kubectl = await Kubectl.create(cluster.kubeconfig);
  });

  afterAll(async () => {
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const logOf = async (name: string): Promise<string> =>
    await readFile(join(cluster.nodeDir, "pods", `default_${name}`, "main.log"), "utf8");

  it("rolls a Deployment out and in again, and leaves no process", async () => {
    const code = `${answering}//rollout`;
    await kubectl.apply(workload("Deployment", "web", { containers: [container(code)] }, { replicas: 2 }));
    await kubectl.run("rollout", "status", "deployment/web", "--timeout=20s");
    expect((await processesWith("//rollout")).length).toBeGreaterThanOrEqual(2);
    await kubectl.run("scale", "deployment/web", "--replicas=0");
    await until(
      () => kubectl.run("get", "pods", "--selector=app=web", "-o=name"),
      (names) => names === "",
    );
    expect(await processesWith("//rollout")).toEqual([]);
  });

  it("keeps the data of a claim over the pod's deletion, and a kill of the node", async () => {
    const code = `
      require("fs").appendFileSync("/var/kept/data/starts", "x");
      require("fs").writeFileSync("/var/elsewhere", "in memory");
      ${answering}//claims`;
    const mounts = { volumeMounts: [{ name: "data", mountPath: "/var/kept/data" }], readinessProbe: ready };
    const volumeClaimTemplates = [
      {
        metadata: { name: "data" },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
      },
    ];
    await kubectl.apply(
      workload(
        "StatefulSet",
        "kept",
        { containers: [container(code, mounts)] },
        { serviceName: "s", volumeClaimTemplates },
      ),
    );
    await kubectl.run("rollout", "status", "statefulset/kept", "--timeout=20s");
    expect(await kubectl.get("pvc/data-kept-0", ".status.phase")).toBe("Bound");
    const uid = await kubectl.get("pod/kept-0", ".metadata.uid");
    await kubectl.run("delete", "pod", "kept-0");
    // The StatefulSet's status may not know of the deletion yet.
    await until(
      () => kubectl.get("pod/kept-0", ".metadata.uid"),
      (other) => other !== uid,
    );
    await kubectl.waitFor("pod/kept-0", "condition=Ready");
    expect(await insideOf("//claims", "cat /var/kept/data/starts")).toBe("xx");

    await cluster.kubelet.kill();
    await until(
      () => processesWith("//claims"),
      (pids) => pids.length === 0,
      2_000,
    );
    await cluster.kubelet.start();
    await until(
      () => kubectl.get("pod/kept-0", ".status.containerStatuses[0].restartCount"),
      (count) => count === "1",
    );
    await kubectl.waitFor("pod/kept-0", "condition=Ready");
    expect(await insideOf("//claims", "cat /var/kept/data/starts")).toBe("xxx");
    expect([existsSync("/var/kept"), existsSync("/var/elsewhere")]).toEqual([false, false]);

    await kubectl.run("delete", "statefulset/kept", "--cascade=foreground", "--wait");
    await kubectl.run("delete", "pvc/data-kept-0", "--wait");
    await until(
      async () =>
        existsSync(join(cluster.nodeDir, "claims", "default", "data-kept-0"))
          ? (await run("ls", [join(cluster.nodeDir, "claims", "default", "data-kept-0")])).stdout
          : "",
      (left) => left === "",
    );
  });

  it("shows ConfigMaps, Secrets and tokens, and their changes", async () => {
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "hidden" },
      stringData: { key: "s3cret" },
    };
    const show = `
      const read = (file) => require("fs").readFileSync(file, "utf8");
      const token = read("/var/run/secrets/kubernetes.io/serviceaccount/token");
      console.log([process.env.MODE, process.env.KEY, read("/etc/hidden/key"), token.split(".").length, process.env.KUBERNETES_SERVICE_HOST, require("os").hostname()].join(" "));
      setInterval(() => console.log(read("/etc/settings/mode")), 100);
      //volumes`;
    const env = [
      { name: "MODE", valueFrom: { configMapKeyRef: { name: "settings", key: "mode" } } },
      { name: "KEY", valueFrom: { secretKeyRef: { name: "hidden", key: "key" } } },
    ];
    const volumeMounts = [
      { name: "settings", mountPath: "/etc/settings" },
      { name: "hidden", mountPath: "/etc/hidden", readOnly: true },
    ];
    const volumes = [
      { name: "settings", configMap: { name: "settings" } },
      { name: "hidden", secret: { secretName: "hidden" } },
    ];
    const spec = {
      containers: [container(show, { env, volumeMounts })],
      volumes,
      terminationGracePeriodSeconds: 1,
    };
    await kubectl.apply(pod("shown", spec));
    const reason = ".status.containerStatuses[0].state.waiting.reason";
    await until(
      () => kubectl.get("pod/shown", reason),
      (text) => text === "CreateContainerError" || text === "CreateContainerConfigError",
    );
    await kubectl.apply(configMap("settings", { mode: "first" }), secret);
    await kubectl.waitFor("pod/shown", "condition=Ready");
    const service = await kubectl.get("service/kubernetes", ".spec.clusterIP");
    await until(
      () => logOf("shown"),
      (log) => log.includes(`first s3cret s3cret 3 ${service} shown\n`),
    );
    await kubectl.apply(configMap("settings", { mode: "second" }));
    const log = await until(
      () => logOf("shown"),
      (text) => text.endsWith("second\n"),
      5_000,
    );
    expect(log).toContain("\nfirst\n");
    await kubectl.run("delete", "pod", "shown");
  });

  it("starts a crashed container again, runs init containers first, and kills what does not end", async () => {
    const crash =
      "console.log(require('fs').readFileSync('/shared/order', 'utf8')); setTimeout(() => process.exit(3), 300)";
    const shared = { volumeMounts: [{ name: "shared", mountPath: "/shared" }] };
    const [one, two] = ["one", "two"].map((name) => {
      const code = `require("fs").appendFileSync("/shared/order", "${name} ")`;
      return Object.assign(container(code, shared), { name });
    });
    const spec = {
      initContainers: [one, two],
      containers: [container(crash, shared)],
      volumes: [{ name: "shared", emptyDir: {} }],
    };
    const stubborn = container(
      `const { existsSync } = require("fs");
       process.on("SIGTERM", () => console.log(existsSync("/tmp/hook") ? "asked after the hook" : "asked"));
       setInterval(() => {}, 1000)//stubborn`,
      { lifecycle: { preStop: { exec: { command: ["touch", "/tmp/hook"] } } } },
    );
    await kubectl.apply(
      pod("crashing", spec),
      pod("stubborn", { containers: [stubborn], terminationGracePeriodSeconds: 2 }),
    );
    await until(
      () => kubectl.get("pod/crashing", ".status.containerStatuses[0].restartCount"),
      (count) => Number(count) >= 2,
    );
    expect(
      await kubectl.get("pod/crashing", ".status.containerStatuses[0].lastState.terminated.exitCode"),
    ).toBe("3");
    expect(await logOf("crashing")).toMatch(/^one two \n/);

    await kubectl.waitFor("pod/stubborn", "condition=Ready");
    const [started] = [performance.now(), await kubectl.run("delete", "pod", "stubborn")];
    expect(performance.now() - started).toBeGreaterThan(1_900);
    expect(await logOf("stubborn")).toContain("asked after the hook");
    expect(await processesWith("//stubborn")).toEqual([]);
    await kubectl.run("delete", "pod", "crashing", "--force");
  });

  it("restarts a container whose liveness probe fails, by a command in it", async () => {
    const livenessProbe = {
      exec: { command: ["test", "!", "-e", "/tmp/sick"] },
      periodSeconds: 1,
      // A slow answer is no sign of sickness here.
      timeoutSeconds: 20,
      failureThreshold: 1,
    };
    // Without the interval it would end by itself.
    const sick = container(
      `setTimeout(() => require('fs').writeFileSync('/tmp/sick', ''), 500);
       process.on('SIGTERM', () => process.exit(0));
       setInterval(() => {}, 1000)`,
      { livenessProbe },
    );
    await kubectl.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "sick" },
      spec: { containers: [sick] },
    });
    const status = ".status.containerStatuses[0]";
    await until(
      () => kubectl.get("pod/sick", `${status}.restartCount`),
      (count) => Number(count) >= 1,
    );
    expect(await kubectl.get("pod/sick", `${status}.lastState.terminated.exitCode`)).toBe("0");
    await kubectl.run("delete", "pod", "sick");
  });

  it("goes on where it was when the API server comes back", async () => {
    const code = `${answering}//outage`;
    await kubectl.apply(workload("Deployment", "outage", { containers: [container(code)] }));
    await kubectl.run("rollout", "status", "deployment/outage", "--timeout=20s");
    await cluster.apiServer.kill();
    const before = await processesWith("//outage");
    await cluster.apiServer.start();
    expect(await processesWith("//outage")).toEqual(before);
    await kubectl.run("scale", "deployment/outage", "--replicas=2");
    await kubectl.run("rollout", "status", "deployment/outage", "--timeout=40s");
    await kubectl.run("delete", "deployment", "outage");
  });
});
