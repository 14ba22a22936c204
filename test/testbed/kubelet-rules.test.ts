import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { V1EndpointSlice, V1Service } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { parseRange } from "../../testbed/kubelet/addresses.ts";
import { probeOnce, watchProbe } from "../../testbed/kubelet/probes.ts";
import { renderRuleset, serviceTargets } from "../../testbed/kubelet/ruleset.ts";
import { assignIngress } from "../../testbed/kubelet/services.ts";

const service = (
  name: string,
  status: V1Service["status"],
  more: Readonly<Record<string, string>> = {},
): V1Service => ({
  metadata: { name, namespace: "demo" },
  spec: {
    type: "LoadBalancer",
    clusterIPs: ["10.75.1.70"],
    ports: [{ port: 443, name: "https" }],
    ...more,
  },
  ...(status && { status }),
});

const slice = (endpoints: NonNullable<V1EndpointSlice["endpoints"]>): V1EndpointSlice => ({
  metadata: { name: "s", namespace: "demo", labels: { "kubernetes.io/service-name": "a" } },
  addressType: "IPv4",
  endpoints,
  ports: [{ name: "https", port: 6443 }],
});

const endpoint = (address: string, ready: boolean, terminating = false) => ({
  addresses: [address],
  conditions: { ready, serving: true, terminating },
});

const endpointsFor = (endpoints: NonNullable<V1EndpointSlice["endpoints"]>) =>
  serviceTargets([service("a", undefined)], [slice(endpoints)], () => [])[0]?.endpoints;

describe("services", () => {
  it("keep the address they have, and get the one they ask for", () => {
    const range = parseRange("10.75.1.16-18");
    const assigned = assignIngress(
      [
        service("new", undefined),
        service("asks", undefined, { loadBalancerIP: "10.75.1.16" }),
        service("has", { loadBalancer: { ingress: [{ ip: "10.75.1.17" }] } }),
        service("inner", undefined, { type: "ClusterIP" }),
      ],
      range,
    );
    expect(Object.fromEntries(assigned)).toEqual({
      "demo/has": "10.75.1.17",
      "demo/asks": "10.75.1.16",
      "demo/new": "10.75.1.18",
    });
  });

  it("lead to ready endpoints, else to those that end and still serve", () => {
    expect(endpointsFor([endpoint("10.0.0.1", true), endpoint("10.0.0.2", false, true)])).toEqual([
      { address: "10.0.0.1", port: 6443 },
    ]);
    expect(endpointsFor([endpoint("10.0.0.2", false, true), endpoint("10.0.0.3", false)])).toEqual([
      { address: "10.0.0.2", port: 6443 },
    ]);
  });

  it("are open to others at their ingress address only", () => {
    const targets = serviceTargets([service("a", undefined)], [slice([endpoint("10.0.0.1", true)])], () => [
      "10.75.1.16",
    ]);
    const rules = renderRuleset(targets, "10.75.1.2");
    const prerouting = /chain prerouting \{([^}]*)\}/.exec(rules)?.[1];
    expect(prerouting).toContain("ip daddr 10.75.1.16 tcp dport 443 goto service-0");
    expect(prerouting).not.toContain("10.75.1.70");
    expect(/chain output \{([^}]*)\}/.exec(rules)?.[1]).toContain("10.75.1.70");
  });
});

describe("probes", () => {
  it("report each crossing of a threshold once", async () => {
    const results: boolean[] = [];
    const stop = new AbortController();
    const codes = [1, 0, 0, 1, 1, 1, 0];
    const execute = async (): Promise<number> => {
      const code = codes.shift();
      if (code === undefined) stop.abort();
      return code ?? 0;
    };
    const target = { podIP: "127.0.0.1", container: { name: "c" }, execute };
    const probe = {
      exec: { command: ["true"] },
      periodSeconds: 0.001,
      failureThreshold: 3,
      successThreshold: 1,
    };
    await watchProbe(probe, target, (healthy) => results.push(healthy), stop.signal);
    expect(results).toEqual([true, false, true]);
  });

  it("take an answer below 400 for health, and find a port by its name", async () => {
    const server = createServer((request, response) => {
      response.statusCode = request.url === "/readyz" ? 204 : 503;
      response.end();
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as AddressInfo;
    const container = { name: "c", ports: [{ name: "http", containerPort: port }] };
    const target = { podIP: "127.0.0.1", container, execute: async () => 0 };
    const get = (path: string) => probeOnce({ httpGet: { path, port: "http" } }, target, 1_000);
    expect([await get("/readyz"), await get("/")]).toEqual([true, false]);
    expect(await probeOnce({ tcpSocket: { port } }, target, 1_000)).toBe(true);
    server.close();
    expect(await probeOnce({ tcpSocket: { port: 1 } }, target, 1_000)).toBe(false);
  });
});
