import { execFile } from "node:child_process";
import { Resolver } from "node:dns/promises";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { V1Pod } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeBridge } from "../../activities/control-plane/vpn.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import { NOBODY } from "../../hosting/claim.ts";
import { loadConfig } from "../../sites/config.ts";
import { ControlPlaneSites } from "../../sites/control-planes.ts";
import { startControlPlaneTestbed } from "../../testbed/control-plane.ts";
import { applyAll, awaitReady, awaitServices } from "../../testbed/control-plane/install.ts";
import { seedMetadata, secret } from "../../testbed/control-plane/manifests/objects.ts";
import {
  echoPod,
  echoPort,
  vpnServerConfig,
  vpnServerDeployment,
  vpnServerService,
} from "../../testbed/control-plane/manifests/vpn.ts";
import {
  apiServerName,
  controlPlane,
  seedNamespace,
  singletons,
  systemNamespace,
  vpnPort,
} from "../../testbed/control-plane/names.ts";
import { echoPath } from "../../testbed/control-plane/shoot-side.ts";
import type { ControlPlaneTestbed } from "../../testbed/control-plane/testbed.ts";
import { inside } from "../../testbed/network/places.ts";
import { identityOf } from "../../testbed/process-identity.ts";
import { waitUntilGone } from "./wait.ts";

const run = promisify(execFile);
const soon = { everyMs: 100, deadlineMs: 240_000 };

describe("the test bed for control planes", () => {
  let dir: string;
  let testbed: ControlPlaneTestbed;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "rehome-control-plane-"));
    testbed = await startControlPlaneTestbed({ dir });
  });

  afterAll(async () => {
    const processes = testbed.servers.map(({ pid }) => identityOf(pid));
    await testbed.stop();
    await waitUntilGone(processes, 0);
    const places = Object.values(testbed.network.places);
    const left = places.filter(({ namespace }) => existsSync(`/run/netns/${namespace}`));
    if (left.length > 0) throw new Error(`left are ${left.map(({ namespace }) => namespace).join(", ")}`);
    await rm(dir, { recursive: true });
  });

  const moved = () => testbed.apiAt(testbed.addresses.apiServer);

  async function podsOf(namespace: string, app: string): Promise<V1Pod[]> {
    const path = `/api/v1/namespaces/${namespace}/pods?labelSelector=app%3D${app}`;
    return (await moved().json<{ items: V1Pod[] }>({ path })).items;
  }

  /** What a process in a seed gets from the pod behind the VPN, as an API server there would. */
  async function askEchoFrom(seed: "seed-a" | "seed-b"): Promise<string> {
    const [pod] = await podsOf(systemNamespace, echoPod().metadata?.name as string);
    const ask = `fetch("http://${pod?.status?.podIP}:${echoPort}/").then((r) => r.text()).then(console.log)`;
    const { command, arguments: args } = inside(testbed.seeds[seed].place, process.execPath, ["-e", ask]);
    return (await run(command, args, { timeout: 10_000 })).stdout;
  }

  it("writes a configuration that rehome takes, and in which nothing forbids a move", async () => {
    const config = loadConfig(testbed.configFile);
    expect(Object.keys(config.seeds)).toEqual(["seed-a", "seed-b"]);
    const sites = new ControlPlaneSites(config);
    const { hosting } = sites.controlPlane(controlPlane, { source: "seed-a", destination: "seed-b" }, NOBODY);
    const inspection = await hosting.inspect(AbortSignal.timeout(10_000));
    expect(inspection).toMatchObject({ refusals: [], apiServers: 2, vpn: true });
    expect(inspection.etcds.map(({ name, members }) => [name, members])).toEqual([
      ["etcd-main", 3],
      ["etcd-events", 3],
    ]);
    expect(new Set(inspection.controllers)).toEqual(new Set(singletons));
  });

  it("serves the control plane's name at both DNS servers", async () => {
    for (const server of testbed.dns.servers) {
      const resolver = new Resolver();
      resolver.setServers([server]);
      expect(await resolver.resolve4(apiServerName)).toEqual([testbed.addresses.apiServer]);
    }
  });

  it("keeps Secrets of the moved cluster unreadable in its etcd", async () => {
    const name = "private";
    const path = "/api/v1/namespaces/default/secrets";
    await moved().json({
      method: "POST",
      path,
      body: { metadata: { name }, stringData: { word: "open-sesame" } },
    });
    const { stdout } = await run("grep", [
      "-rlaF",
      "open-sesame",
      join(dir, "seed-a", "node", "claims"),
    ]).catch((error: { code: number }) => ({ stdout: `exit code ${error.code}` }));
    expect(stdout).toBe("exit code 1");
  });

  it("runs every controller once, and each leads", () => {
    const events = testbed.fenceJournal();
    expect(events.filter(({ event }) => event === "refused")).toEqual([]);
    const leading = events.filter(({ event }) => event === "leading");
    expect(new Set(leading.map(({ controller }) => controller))).toEqual(new Set(singletons));
  });

  it("reaches pods of the moved cluster through the VPN, whichever of its clients is alive", async () => {
    expect(await moved().json({ path: echoPath })).toMatchObject({ pod: "echo" });
    await expect(askEchoFrom("seed-b")).rejects.toThrow("EHOSTUNREACH");
    for (const { metadata } of await podsOf(systemNamespace, "vpn-shoot")) {
      await moved().json({
        method: "DELETE",
        path: `/api/v1/namespaces/${systemNamespace}/pods/${metadata?.name}`,
        body: { gracePeriodSeconds: 0 },
      });
      const { status } = await moved().request({ path: echoPath, timeoutMs: 10_000 });
      expect(status).toBe(200);
      await pollUntil("two VPN clients are ready again", twoClientsAreReady, soon);
    }
  });

  async function twoClientsAreReady(): Promise<true | string> {
    const pods = await podsOf(systemNamespace, "vpn-shoot");
    const ready = pods.filter(
      ({ metadata, status }) =>
        metadata?.deletionTimestamp === undefined &&
        status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True"),
    );
    return ready.length === 2 || `${ready.length} of 2`;
  }

  it("lets both seeds reach the moved cluster's pods at once, each by its own VPN server", async () => {
    const { api } = testbed.seeds["seed-b"];
    const source = testbed.seeds["seed-a"].api;
    const { data } = await source.json<{ data: Record<string, string> }>({
      path: `/api/v1/namespaces/${seedNamespace}/secrets/vpn`,
    });
    const texts = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]);
    const server = vpnServerDeployment(testbed.shoot.place.podSubnet);
    const service = vpnServerService();
    await applyAll(api, [{ apiVersion: "v1", kind: "Namespace", metadata: { name: seedNamespace } }]);
    await applyAll(api, [
      secret(seedMetadata("vpn"), Object.fromEntries(texts) as Record<string, string>),
      vpnServerConfig(),
      service,
      server,
    ]);
    await awaitReady(api, [server]);
    const address = (await awaitServices(api, [service])).get("vpn-seed-server")?.ingressIp;
    const vpn = loadConfig(testbed.configFile).controlPlanes[controlPlane]?.vpn;
    if (vpn === undefined) throw new Error("the VPN is not in the configuration");
    await makeBridge(moved(), vpn, "destination", `${address}:${vpnPort}`, AbortSignal.timeout(240_000));
    await pollUntil(
      "the pod answers seed-b",
      async () => (await askEchoFrom("seed-b")) !== "" || "nothing",
      soon,
    );
    expect(await askEchoFrom("seed-b")).toContain('"pod":"echo"');
    expect(await askEchoFrom("seed-a")).toContain('"pod":"echo"');
    await api.json({ method: "DELETE", path: `/api/v1/namespaces/${seedNamespace}` });
  });
});
