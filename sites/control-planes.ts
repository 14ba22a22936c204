import { lookupAt } from "../dns/lookup.ts";
import { parseServer } from "../dns/names.ts";
import { createStatefulSetHosting } from "../hosting/statefulset/index.ts";
import type { Hosting, Side } from "../hosting/types.ts";
import { ApiServer } from "../kubernetes/api-server.ts";
import type { ControlPlaneConfig, DnsConfig, SeedConfig } from "./config-control-planes.ts";
import type { SitesConfig } from "./config.ts";
import { UnknownSiteError } from "./unknown-site.ts";

/** A control plane as one move sees it: hosted in two seeds, and itself an API server with a name. */
export interface ControlPlane {
  readonly config: ControlPlaneConfig;
  readonly hosting: Hosting;
  /** The control plane's own API, by its DNS name, which is asked of the authoritative servers. */
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

  /** @throws Error when the configuration has no section `dns`. */
  get dns(): DnsConfig {
    if (!this.#config.dns)
      throw new Error("the worker's configuration has no section dns: add it to rehome.yaml");
    return this.#config.dns;
  }

  /** @throws UnknownSiteError */
  controlPlane(name: string, seeds: Readonly<Record<Side, string>>): ControlPlane {
    const config = this.controlPlaneConfig(name);
    const { kubeconfig, context, apiServer } = config;
    const ends = { source: this.seed(seeds.source), destination: this.seed(seeds.destination) };
    return {
      config,
      hosting: createStatefulSetHosting(ends, { ...config, name, vpnServer: config.vpn?.server }),
      api: new ApiServer(`control plane ${name}`, {
        kubeconfig,
        context,
        lookup: lookupAt(this.dns.servers.map(parseServer)),
      }),
      apiAt: (url) =>
        new ApiServer(`control plane ${name} at ${url}`, {
          kubeconfig,
          context,
          server: url,
          serverName: apiServer.dnsName,
        }),
    };
  }
}

function known<T>(kind: string, all: Readonly<Record<string, T>>, name: string): T {
  const found = Object.hasOwn(all, name) ? all[name] : undefined;
  if (found === undefined) throw new UnknownSiteError(kind, name, Object.keys(all).toSorted());
  return found;
}
