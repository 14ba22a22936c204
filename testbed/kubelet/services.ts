import { execFile } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import type { V1EndpointSlice, V1Service } from "@kubernetes/client-node";
import { DeviceAddresses, firstFree, isInRange } from "./addresses.ts";
import type { AddressRange } from "./addresses.ts";
import { mergePatch } from "./api.ts";
import type { NodeApi } from "./api.ts";
import { follow } from "./follow.ts";
import type { Followed } from "./follow.ts";
import { insist } from "./retry.ts";
import { renderRuleset, serviceTargets } from "./ruleset.ts";
import { tell, wordsOf } from "./tell.ts";

export interface ServicesOptions {
  readonly api: NodeApi;
  /** Absolute path of `nft`. */
  readonly nft: string;
  readonly device: DeviceAddresses;
  /** Addresses for Services of type LoadBalancer. */
  readonly ingressRange: AddressRange;
  readonly nodeAddress: string;
}

/** Events of one change come within this time of each other. */
const gatherMs = 10;
const againAfterMs = 1_000;
const run = promisify(execFile);

/** Leads the addresses of Services to their endpoints with rules of the kernel, and gives load balancers addresses. */
export class Services {
  readonly #options: ServicesOptions;
  readonly #routed = new Set<string>();
  #services: Followed<V1Service> | undefined;
  #slices: Followed<V1EndpointSlice> | undefined;
  #rules = "";
  #wanted = false;
  #working = false;

  constructor(options: ServicesOptions) {
    this.#options = options;
  }

  /** Follows Services and EndpointSlices; resolves when the first rules are in force. */
  async start(): Promise<void> {
    const { core, discovery, config } = this.#options.api;
    const changed = (): void => void this.#changed();
    this.#services = await follow<V1Service>(config, {
      path: "/api/v1/services",
      list: () => core.listServiceForAllNamespaces(),
      onChange: changed,
      onDelete: changed,
    });
    this.#slices = await follow<V1EndpointSlice>(config, {
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      list: () => discovery.listEndpointSliceForAllNamespaces(),
      onChange: changed,
      onDelete: changed,
    });
    await this.#apply();
  }

  async #changed(): Promise<void> {
    this.#wanted = true;
    if (this.#working || this.#slices === undefined) return;
    this.#working = true;
    while (this.#wanted) {
      await delay(gatherMs);
      this.#wanted = false;
      try {
        await this.#apply();
      } catch (error) {
        tell(`services: ${wordsOf(error)}`);
        this.#wanted = true;
        await delay(againAfterMs);
      }
    }
    this.#working = false;
  }

  async #apply(): Promise<void> {
    const services = this.#services?.list() ?? [];
    const ingress = assignIngress(services, this.#options.ingressRange);
    const targets = serviceTargets(services, this.#slices?.list() ?? [], (service) => {
      const address = ingress.get(keyOf(service));
      return address === undefined ? [] : [address];
    });
    const { device, ingressRange, nodeAddress, nft } = this.#options;
    await this.#route(targets.flatMap(({ clusterIPs }) => clusterIPs));
    for (const address of ingress.values()) await device.add(address);
    const rules = renderRuleset(targets, nodeAddress);
    if (rules !== this.#rules) {
      const done = run(nft, ["-f", "-"]);
      done.child.stdin?.end(rules);
      await done;
      this.#rules = rules;
    }
    const given = new Set(ingress.values());
    for (const address of await device.list(ingressRange)) {
      if (!given.has(address)) await device.remove(address);
    }
    for (const service of services) await this.#report(service, ingress.get(keyOf(service)));
  }

  /** Cluster addresses have a route to the node itself: it must not depend on any link being up. */
  async #route(addresses: readonly string[]): Promise<void> {
    const wanted = new Set(addresses);
    for (const address of wanted) {
      if (this.#routed.has(address)) continue;
      await run("ip", ["route", "replace", `${address}/32`, "dev", "lo", "src", this.#options.nodeAddress]);
      this.#routed.add(address);
    }
    for (const address of this.#routed) {
      if (wanted.has(address)) continue;
      await run("ip", ["route", "delete", `${address}/32`, "dev", "lo"]);
      this.#routed.delete(address);
    }
  }

  /** Writes the address that a Service has been given, or takes it out of the status of one that has none any more. */
  async #report(service: V1Service, address: string | undefined): Promise<void> {
    const { name = "", namespace = "", uid } = service.metadata ?? {};
    if (service.status?.loadBalancer?.ingress?.[0]?.ip === address) return;
    const loadBalancer = { ingress: address === undefined ? null : [{ ip: address, ipMode: "VIP" }] };
    const body = { metadata: { uid }, status: { loadBalancer } };
    const { core } = this.#options.api;
    await insist(`status of service ${namespace}/${name}`, () =>
      core.patchNamespacedServiceStatus({ name, namespace, body }, mergePatch),
    );
  }
}

/**
 * Address of each Service of type LoadBalancer, by namespace and name: the one it
 * has, else the one it asks for (`spec.loadBalancerIP`), else a free one.
 */
export function assignIngress(services: readonly V1Service[], range: AddressRange): Map<string, string> {
  const balancers = services.filter(({ spec }) => spec?.type === "LoadBalancer");
  const assigned = new Map<string, string>();
  const taken = new Set<string>();
  const claims: ((service: V1Service) => string | undefined)[] = [
    ({ status }) => status?.loadBalancer?.ingress?.[0]?.ip,
    ({ spec }) => spec?.loadBalancerIP,
    () => firstFree(range, taken),
  ];
  for (const claim of claims) {
    for (const service of balancers) {
      if (assigned.has(keyOf(service))) continue;
      const address = claim(service);
      if (address === undefined || !isInRange(address, range) || taken.has(address)) continue;
      assigned.set(keyOf(service), address);
      taken.add(address);
    }
  }
  return assigned;
}

function keyOf({ metadata }: V1Service): string {
  return `${metadata?.namespace}/${metadata?.name}`;
}
