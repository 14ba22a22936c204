import { lookupAt } from "../dns/lookup.ts";
import { parseServer } from "../dns/names.ts";
import type { DnsServer } from "../dns/names.ts";
import type { Claim } from "../hosting/claim.ts";
import { createGardenerHosting } from "../hosting/gardener/index.ts";
import { updatedRecord } from "../hosting/statefulset/dns-record.ts";
import { createStatefulSetHosting } from "../hosting/statefulset/index.ts";
import type { Hosting, Side } from "../hosting/types.ts";
import { ApiServer } from "../kubernetes/api-server.ts";
import type { Permit } from "../kubernetes/api-server.ts";
import { isInZone } from "./config-control-planes.ts";
import type { ControlPlaneConfig, SeedConfig } from "./config-control-planes.ts";
import type { SitesConfig } from "./config.ts";
import { UnknownSiteError } from "./unknown-site.ts";

/**
 * A control plane as one attempt of a move sees it: hosted in two seeds, and itself an API server with a name. Right
 * before each change it is asked whether the attempt still holds the claim.
 */
export interface ControlPlane {
  readonly config: ControlPlaneConfig;
  readonly hosting: Hosting;
  /** Every authoritative server of its DNS name, where the configuration has them. */
  readonly zone?: { readonly servers: readonly DnsServer[]; readonly zone: string } | undefined;
  /** The control plane's own API, by its DNS name, which is asked of the authoritative servers where they are known. */
  readonly api: ApiServer;
  /** The same API at an address of one side; its certificate is that of the DNS name. */
  readonly apiAt: (url: string) => ApiServer;
}

/** Seeds, hosted control planes and the DNS servers of their names. */
export class ControlPlaneSites {
  readonly seedNames: readonly string[];
  readonly names: readonly string[];
  readonly #config: Pick<SitesConfig, "seeds" | "controlPlanes" | "dns">;

  constructor(config: Pick<SitesConfig, "seeds" | "controlPlanes" | "dns">) {
    this.#config = config;
    this.seedNames = Object.keys(config.seeds).toSorted();
    this.names = Object.keys(config.controlPlanes).toSorted();
  }

  /** @throws UnknownSiteError */
  seed(name: string): ApiServer {
    const seed: SeedConfig = known("seed", this.#config.seeds, name);
    return new ApiServer(`seed ${name}`, seed);
  }

  /** @throws UnknownSiteError */
  controlPlaneConfig(name: string): ControlPlaneConfig {
    return known("control plane", this.#config.controlPlanes, name);
  }

  /** @param claim of the attempt that works on it. @throws UnknownSiteError */
  controlPlane(name: string, seeds: Readonly<Record<Side, string>>, claim: Claim): ControlPlane {
    const config = this.controlPlaneConfig(name);
    const { kubeconfig, context, apiServer } = config;
    const zone = this.#zoneOf(apiServer.dnsName);
    const lookup = zone && lookupAt(zone.servers);
    const hosting = this.#hostingOf(name, config, seeds, claim);
    const permit: Permit = async (signal) => await hosting.requireClaim(signal);
    return {
      config,
      hosting,
      zone,
      api: new ApiServer(`control plane ${name}`, { kubeconfig, context, lookup }, permit),
      apiAt: (url) =>
        new ApiServer(
          `control plane ${name} at ${url}`,
          { kubeconfig, context, server: url, serverName: apiServer.dnsName },
          permit,
        ),
    };
  }

  #hostingOf(
    name: string,
    config: ControlPlaneConfig,
    seeds: Readonly<Record<Side, string>>,
    claim: Claim,
  ): Hosting {
    const ends = { source: this.seed(seeds.source), destination: this.seed(seeds.destination) };
    if (config.hosting === "gardener") {
      const garden = new ApiServer(`garden of ${name}`, config.garden);
      return createGardenerHosting(
        { ...ends, garden },
        { ...config, name, seeds, vpn: config.vpn !== undefined },
        claim,
      );
    }
    const { dnsName } = config.apiServer;
    const zone = this.#zoneOf(dnsName);
    const tsig = this.#config.dns?.tsig;
    // loadConfig has refused a configuration without them.
    if (zone === undefined || tsig === undefined)
      throw new Error(`control plane ${name}: no key for updates of ${dnsName}`);
    const layout = { ...config, name, vpnServer: config.vpn?.server };
    const dns = (permit: Permit) => updatedRecord({ ...zone, tsig }, dnsName, permit);
    return createStatefulSetHosting(ends, layout, dns, claim);
  }

  #zoneOf(dnsName: string): ControlPlane["zone"] {
    const { dns } = this.#config;
    if (dns === undefined || !isInZone(dnsName, dns.zone)) return undefined;
    return { servers: dns.servers.map(parseServer), zone: dns.zone };
  }
}

function known<T>(kind: string, all: Readonly<Record<string, T>>, name: string): T {
  const found = Object.hasOwn(all, name) ? all[name] : undefined;
  if (found === undefined) throw new UnknownSiteError(kind, name, Object.keys(all).toSorted());
  return found;
}
