import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { put, remove, Store } from "../../etcd/store.ts";
import { ControlPlaneClients } from "../../testbed/control-plane/workload/clients.ts";
import type { ControlPlaneClientsOptions } from "../../testbed/control-plane/workload/clients.ts";
import { atAddress, endpointOf, openHttp1 } from "../../testbed/control-plane/workload/endpoint.ts";
import { CachingResolver, dnsResolve } from "../../testbed/control-plane/workload/resolver.ts";
import type { VpnSide } from "../../testbed/control-plane/workload/vpn-prober.ts";
import { jsonFrom } from "../../testbed/workload/http.ts";
import type { HttpsClient } from "../../testbed/workload/https-client.ts";
import { apiName, startApiServers } from "./fixtures/api-servers.ts";
import type { ApiServers } from "./fixtures/api-servers.ts";
import { startNameServer } from "./fixtures/name-server.ts";
import type { NameServer } from "./fixtures/name-server.ts";
import { describePod, pingedPod, startPod } from "./fixtures/pinged-pod.ts";

const addresses = ["127.0.61.1", "127.0.61.2"] as const;
let dir: string;
let bed: ApiServers;
let store: Store;
let dns: NameServer;
let clients: ControlPlaneClients | undefined;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "rehome-api-clients-"));
  const flags = ["--shutdown-delay-duration=2s", "--shutdown-send-retry-after=true", "--goaway-chance=0.02"];
  dns = await startNameServer(join(dir, "dns"), "rehome.example");
  bed = await startApiServers({ dir, addresses, flags });
  store = new Store({ name: "etcd", endpoints: [bed.etcd.endpoint], prefix: "/registry" });
});

afterEach(async () => {
  await clients?.close();
  clients = undefined;
  for (const server of bed.servers) if (!server.isRunning) await server.start();
});

afterAll(async () => {
  store.close();
  await bed.stop();
  await dns.stop();
  await rm(dir, { recursive: true });
});

const ttlSeconds = 1;

async function point(address: string): Promise<void> {
  await dns.point(apiName, address, ttlSeconds);
}

async function start(
  namespace: string,
  options: Partial<ControlPlaneClientsOptions> = {},
): Promise<ControlPlaneClients> {
  await point(addresses[0]);
  clients = await ControlPlaneClients.start({
    kubeconfig: bed.kubeconfig,
    dnsServers: dns.servers,
    requestsPerSecond: 25,
    http1RequestsPerSecond: 25,
    watches: 10,
    namespace,
    ...options,
  });
  return clients;
}

/** Until the clients have done so many requests more. */
async function work(on: ControlPlaneClients, requests: number): Promise<void> {
  const until = on.pulse().requests + requests;
  await vi.waitFor(() => expect(on.pulse().requests).toBeGreaterThan(until), {
    timeout: 240_000,
    interval: 100,
  });
}

const keyOf = (namespace: string, name: string) => `/registry/configmaps/${namespace}/${name}`;

async function valueOf(key: string): Promise<Buffer> {
  const { entry } = await store.get(key);
  if (entry === undefined) throw new Error(`${key} is absent`);
  return entry.value;
}

/** The second API server by its address. */
async function openSecond() {
  const { lookup } = new CachingResolver(async () => ({ addresses: [], ttlSeconds: 0 }));
  return openHttp1(atAddress(await endpointOf(bed.kubeconfig, lookup), addresses[1], bed.port));
}

/** A write that is acknowledged to a program that has ended, through another client. */
async function writeApart(
  on: ControlPlaneClients,
  program: number,
  name: string,
  kind: "put" | "delete",
  server: HttpsClient,
): Promise<void> {
  const { ledger } = on.programs[program] as (typeof on.programs)[number];
  const write = ledger.begin(`configmaps/${name}`, kind, Date.now());
  const path = `/api/v1/namespaces/${on.namespace}/configmaps/${name}`;
  const body = { data: { version: String(write.number) } };
  await jsonFrom(server, kind === "delete" ? { method: "DELETE", path } : { method: "PATCH", path, body });
  ledger.acknowledge(write);
}

describe("clients of a control plane", () => {
  it("notice nothing when their API server is taken out of DNS and then terminated", async () => {
    const on = await start("moved", { requestsPerSecond: 50, http1RequestsPerSecond: 50, watches: 50 });
    await work(on, 300);
    await point(addresses[1]);
    await work(on, 300);
    await bed.terminate(0, { delayMs: 2_000, drainMs: 8_000 });
    await work(on, 300);
    const result = await on.conclude();
    expect(result.protocols.http2.failedRequests).toBe(0);
    // A server closes idle HTTP/1.1 connections without a word, perhaps just when a write is sent on one, which nobody
    // may send again. On a busy machine that moment is long.
    expect(result.excused).toEqual({ cut: result.failedRequests, dropped: 0 });
    expect(result.failedRequests).toBeLessThan(10);
    expect(result).toMatchObject({
      lostWrites: 0,
      staleReads: 0,
      resourceVersionRegressions: 0,
      missedEvents: 0,
      duplicateEvents: 0,
      relists: 0,
      leaseLost: false,
    });
    expect(result.addressChanges.map((change) => change.addresses)).toEqual([[addresses[0]], [addresses[1]]]);
    expect(result.protocols.http1.requests).toBeGreaterThan(400);
    expect(result.protocols.http2.requests).toBeGreaterThan(400);
    // Every stream has moved to the other API server without losing an event.
    expect(result.watchBreaks).toBeGreaterThanOrEqual(50);
    expect(result.timeline.reduce((sum, { calls }) => sum + calls, 0)).toBe(result.requests);
    expect(JSON.parse(JSON.stringify(result))).toEqual(result);
  });

  it("ask again for an address when its time is over, and not before", async () => {
    await dns.point("kept.rehome.example", "127.0.61.8", 2);
    const resolver = new CachingResolver(dnsResolve(dns.servers));
    const addressNow = async () => (await resolver.addressesOf("kept.rehome.example"))[0];
    const askedAt = performance.now();
    expect(await addressNow()).toBe("127.0.61.8");
    await dns.point("kept.rehome.example", "127.0.61.9", 2);
    await vi.waitFor(async () => expect(await addressNow()).toBe("127.0.61.9"), {
      timeout: 5_000,
      interval: 20,
    });
    const elapsed = performance.now() - askedAt;
    expect(elapsed).toBeGreaterThan(1_990);
    expect(elapsed).toBeLessThan(3_000);
    await expect(resolver.addressesOf("absent.rehome.example")).rejects.toThrow("ENOTFOUND");
  });

  it("notice writes that are lost, reads that are stale and objects that come back", async () => {
    const on = await start("damaged");
    const register = keyOf("damaged", "program-0-register-0");
    const old = await valueOf(register);
    await work(on, 300);
    await vi.waitFor(async () => expect(await valueOf(register)).not.toEqual(old), 10_000);
    await store.transact([], [put(register, old)]);
    await store.transact([], [remove(keyOf("damaged", "program-2-register-0"))]);
    await work(on, 200);
    await on.stop();
    const back = "program-1-register-0";
    const value = await valueOf(keyOf("damaged", back));
    await writeApart(on, 1, back, "delete", on.observer);
    await store.transact([], [put(keyOf("damaged", back), value)]);
    const result = await on.conclude();
    const lost = result.lostExamples.map(({ key }) => key);
    expect(lost).toContain("configmaps/program-0-register-0");
    expect(lost).toContain("configmaps/program-2-register-0");
    expect(result.staleReads).toBeGreaterThan(0);
    expect(result.resurrected).toBe(1);
  });

  it("notice an outage, and that their watches could not be resumed", async () => {
    const on = await start("down");
    await work(on, 100);
    await Promise.all(bed.servers.map(async (server) => await server.kill()));
    const downAt = performance.now();
    // So that the API servers' history begins after what the watches have seen.
    for (let index = 0; index < 10; index += 1) await store.transact([], [put("/elsewhere", String(index))]);
    await store.compact(await store.head());
    const downMs = performance.now() - downAt;
    for (const server of bed.servers) await server.start();
    await work(on, 100);
    await vi.waitFor(() => expect(on.watches.every(({ watcher }) => watcher.log.relists > 0)).toBe(true), {
      timeout: 240_000,
      interval: 100,
    });
    const result = await on.conclude();
    expect(result.failedRequests).toBeGreaterThan(0);
    expect(result.failures[0]).toMatch(/http[12] \w+ configmaps: 0 after/);
    expect(result.relists).toBeGreaterThanOrEqual(10);
    expect(result.longestGapMs).toBeGreaterThan(downMs);
    expect(result).toMatchObject({ lostWrites: 0, staleReads: 0, missedEvents: 0, duplicateEvents: 0 });
  });

  it("notice events that a watch did not get", async () => {
    const on = await start("behind");
    await work(on, 100);
    await on.stop();
    await bed.servers[0]?.freeze();
    const second = await openSecond();
    try {
      await writeApart(on, 3, "program-3-register-1", "put", second);
      await point(addresses[1]);
      // What the cache knows may be used until its time is over.
      const isKnown = async () => expect(await on.resolver.addressesOf(apiName)).toEqual([addresses[1]]);
      await vi.waitFor(isKnown, 5_000);
      on.observer.close();
      const result = await on.conclude(2_000);
      expect(result.missedEvents).toBeGreaterThan(0);
      expect(result.missedExamples[0]).toContain("configmaps/program-3-register-1");
      expect(result.lostWrites).toBe(0);
    } finally {
      second.close();
      bed.servers[0]?.thaw();
    }
  });

  it("notice that a pod cannot be reached, each side for itself", async () => {
    await using pod = await startPod();
    const on = await start("vpn", { watches: 0, pingedPod });
    await describePod(on.observer);
    const [first, second] = addresses.map((address, index) => ({
      name: `seed-${index}`,
      address,
      port: bed.port,
    }));
    await on.setVpnSides([first as VpnSide]);
    await pod.answered(20);
    await on.setVpnSides([first as VpnSide, second as VpnSide]);
    await pod.answered(20);
    pod.refuse();
    const allFail = async () =>
      expect((await on.vpn!.results()).every(({ failed }) => failed > 10)).toBe(true);
    await vi.waitFor(allFail, 10_000);
    pod.accept();
    await pod.answered(20);
    await on.setVpnSides([second as VpnSide]);
    await pod.answered(10);
    const { vpn, vpnLongestGapMs } = await on.conclude();
    expect(vpn.map(({ side }) => side)).toEqual(["seed-0", "seed-1"]);
    for (const { pings, failed, longestGapMs, failures } of vpn) {
      expect(pings).toBeGreaterThan(30);
      expect(failed).toBeGreaterThan(10);
      expect(failures.join()).toContain("503");
      expect(longestGapMs).toBeGreaterThan(800);
      expect(longestGapMs).toBeLessThan(4_000);
    }
    expect(vpnLongestGapMs).toBe(Math.max(...vpn.map(({ longestGapMs }) => longestGapMs)));
  });

  it("notice that somebody else holds their lease", async () => {
    const on = await start("lease");
    const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/clients";
    const body = { spec: { holderIdentity: "somebody-else" } };
    await jsonFrom(on.observer, { method: "PATCH", path, body });
    await vi.waitFor(() => expect(on.lease.result().lost).toBe(true), { timeout: 10_000 });
    const result = await on.conclude();
    expect(result.leaseLost).toBe(true);
    expect(result.lease.reason).toBe("held by somebody-else");
  });
});
