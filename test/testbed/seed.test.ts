import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppsV1Api, CoreV1Api, KubeConfig } from "@kubernetes/client-node";
import type { Cluster } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Network } from "../../testbed/network/network.ts";
import { identityOf } from "../../testbed/process-identity.ts";
import { startSeed } from "../../testbed/seed.ts";
import type { Seed } from "../../testbed/seed.ts";
import { Echo, leftOf, waitUntilRemoved } from "./places.ts";
import { lineOf, startNode, waitUntilGone } from "./wait.ts";

const holdSeed = join(import.meta.dirname, "fixtures", "hold-seed.ts");
let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "rehome-seed-"));
});

afterAll(async () => {
  await rm(dir, { recursive: true });
});

describe("a seed", () => {
  let network: Network;
  let seed: Seed;
  let config: KubeConfig;

  beforeAll(async () => {
    network = await Network.create({ dir });
    seed = await startSeed({ network, name: "seed-a", dir: join(dir, "seed-a") });
    config = new KubeConfig();
    config.loadFromFile(seed.kubeconfig);
  });

  afterAll(async () => {
    await seed.stop();
    await network.destroy();
  });

  it("has its API at the address of its place, for the operator and over the wires", async () => {
    expect(seed.url).toBe(`https://${seed.place.address}:6443`);
    const service = await config
      .makeApiClient(CoreV1Api)
      .readNamespacedService({ name: "kubernetes", namespace: "default" });
    expect(service.spec?.clusterIP).toBe(seed.place.clusterIps.replace(".64/26", ".65"));
    for (const from of ["seed-b", "shoot"] as const) {
      const client = new Echo("ask", network.places[from], seed.place.address, 6_443);
      await client.connected();
      client.end();
    }
  });

  it("tells strangers whether it is well, and nothing else", async () => {
    const stranger = new KubeConfig();
    const cluster = config.getCurrentCluster() as Cluster;
    stranger.loadFromClusterAndUser(cluster, { name: "nobody" });
    const refused = stranger.makeApiClient(CoreV1Api).listNamespace();
    await expect(refused).rejects.toMatchObject({ code: 401 });
  });

  it("makes the pods of a Deployment, which nobody runs yet", async () => {
    const labels = { app: "sample" };
    const containers = [{ name: "sample", image: "sample" }];
    await config.makeApiClient(AppsV1Api).createNamespacedDeployment({
      namespace: "default",
      body: {
        metadata: { name: "sample" },
        spec: {
          replicas: 2,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers } },
        },
      },
    });
    const core = config.makeApiClient(CoreV1Api);
    await vi.waitFor(
      async () => {
        const { items } = await core.listNamespacedPod({ namespace: "default" });
        expect(items.map(({ status }) => status?.phase)).toEqual(["Pending", "Pending"]);
      },
      { timeout: 240_000, interval: 200 },
    );
  });

  it("leaves no process and no namespace when it is stopped", async () => {
    const servers = seed.servers.map(({ pid }) => identityOf(pid));
    await seed.stop();
    await network.destroy();
    await waitUntilGone(servers, 0);
    expect(leftOf(network.id)).toEqual([]);
  });
});

describe("a seed goes with the process that started it", () => {
  it("after SIGKILL, and its network with it", async () => {
    const holder = startNode(holdSeed, [dir]);
    const { id, pids } = JSON.parse(await lineOf(holder, /^\{/)) as { id: string; pids: number[] };
    const processes = [holder.pid as number, ...pids].map(identityOf);
    process.kill(holder.pid as number, "SIGKILL");
    expect(await waitUntilGone(processes, 10_000)).toBeLessThan(10_000);
    await waitUntilRemoved(id, 5_000);
  });
});
