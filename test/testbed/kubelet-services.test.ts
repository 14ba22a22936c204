import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findDebianProgram } from "../../testbed/programs/debian.ts";
import { startSmallCluster } from "./kubelet-cluster.ts";
import type { SmallCluster } from "./kubelet-cluster.ts";
import { Kubectl, processesWith, until } from "./kubelet-kubectl.ts";
import { answering, container, ready, service, workload } from "./kubelet-workloads.ts";

const run = promisify(execFile);

/** GET from the root namespace, or from the node's own. */
async function get(url: string, from?: string): Promise<string> {
  // More than the 3 s after which the kernel says that nobody has an address.
  const curl = ["curl", "-sSf", "--max-time", "10", url];
  const [file = "", ...args] = from === undefined ? curl : ["ip", "netns", "exec", from, ...curl];
  return (await run(file, args)).stdout;
}

/** Who answers, of several times. */
async function answers(url: string, from?: string): Promise<Set<string>> {
  return new Set(await Promise.all(Array.from({ length: 8 }, () => get(url, from))));
}

/** How curl ends where nothing takes its connection: at its time limit it would be another code. */
const noConnection = 7;

/** curl's exit code, 0 with an answer. */
async function codeOf(url: string, from?: string): Promise<unknown> {
  return await get(url, from).then(
    () => 0,
    ({ code }: { readonly code: unknown }) => code,
  );
}

/** Process of the program of a pod, found by the pod's name in its environment. */
async function pidOf(pod: string): Promise<string> {
  for (const pid of await processesWith("createServer")) {
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
    if (environment.includes(`POD_NAME=${pod}\0`) && /^NSpid:\t\d+\t1$/m.test(status)) return pid;
  }
  throw new Error(`no process of pod ${pod}`);
}

describe("Services of a node that runs pods as processes", () => {
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

  /** Whether the rules in force lead anything to a pod. */
  async function isServed(address: string): Promise<boolean> {
    const list = [await findDebianProgram("nft"), "list", "ruleset"];
    const { stdout } = await run("ip", ["netns", "exec", cluster.namespace, ...list]);
    return stdout.includes(`${address}:8080`);
  }

  const untilUnserved = async (address: string) =>
    await until(
      () => isServed(address),
      (served) => !served,
    );

  it("leads Services to ready pods only, from inside and outside", async () => {
    const pod = { containers: [container(`${answering}//services`, { readinessProbe: ready })] };
    await kubectl.apply(
      workload("StatefulSet", "served", pod, {
        replicas: 2,
        podManagementPolicy: "Parallel",
        serviceName: "s",
      }),
    );
    await kubectl.apply(service("inner", "ClusterIP", "served"), service("outer", "LoadBalancer", "served"));
    await kubectl.run("rollout", "status", "statefulset/served", "--timeout=20s");
    const outer = await until(
      () => kubectl.get("service/outer", ".status.loadBalancer.ingress[0].ip"),
      Boolean,
    );
    const inner = await kubectl.get("service/inner", ".spec.clusterIP");
    // Addresses of the cluster must not hang on the link to the operator.
    await run("ip", ["-n", cluster.namespace, "link", "set", "veth0", "down"]);
    await until(
      () => get(`http://${inner}`, cluster.namespace),
      (answer) => answer.startsWith("served-"),
    );
    await run("ip", ["-n", cluster.namespace, "link", "set", "veth0", "up"]);
    const seen = new Set<string>();
    await until(
      async () => seen.add(await get(`http://${outer}`)),
      ({ size }) => size === 2,
    );

    const first = await kubectl.get("pod/served-0", ".status.podIP");
    const second = await kubectl.get("pod/served-1", ".status.podIP");
    expect(await isServed(first)).toBe(true);
    await run("nsenter", [
      `--target=${await pidOf("served-0")}`,
      "--mount",
      "--root",
      "touch",
      "/tmp/unready",
    ]);
    await kubectl.waitFor("pod/served-0", "condition=Ready=false");
    await untilUnserved(first);
    expect(await answers(`http://${outer}`)).toEqual(new Set(["served-1"]));
    expect(await answers(`http://${outer}`, cluster.namespace)).toEqual(new Set(["served-1"]));
    expect(await answers(`http://${inner}`, cluster.namespace)).toEqual(new Set(["served-1"]));
    expect(await codeOf(`http://${inner}`)).toBe(noConnection);

    await kubectl.run("patch", "service/outer", "--type=merge", `--patch={"spec":{"type":"ClusterIP"}}`);
    await until(
      () => kubectl.get("service/outer", ".status.loadBalancer"),
      (status) => status === "{}",
    );
    await kubectl.run("scale", "statefulset/served", "--replicas=0");
    await until(
      () => kubectl.run("get", "pods", "--selector=app=served", "-o=name"),
      (names) => names === "",
    );
    await untilUnserved(second);
    expect(await codeOf(`http://${inner}`, cluster.namespace)).toBe(noConnection);
  });
});
