import { loadConfig } from "./config.ts";
import type { SitesConfig } from "./config.ts";
import { ControlPlaneSites } from "./control-planes.ts";
import { KcpSite } from "./kcp.ts";

/** Without the section, moves of that kind are refused for the name of the shard, as for any unknown one. */
const NO_KCP = { frontProxies: [], shards: {}, fenceWorkspace: "root" };

/** All places that a worker can reach. */
export class Sites {
  readonly #config: SitesConfig;
  #kcp: KcpSite | undefined;
  #controlPlanes: ControlPlaneSites | undefined;

  constructor(config: SitesConfig) {
    this.#config = config;
  }

  get kcp(): KcpSite {
    this.#kcp ??= new KcpSite(this.#config.kcp ?? NO_KCP);
    return this.#kcp;
  }

  get controlPlanes(): ControlPlaneSites {
    this.#controlPlanes ??= new ControlPlaneSites(this.#config);
    return this.#controlPlanes;
  }

  async close(): Promise<void> {
    await this.#kcp?.close();
  }
}

/** @throws Error that names the file, the field and what is wrong with it. */
export function loadSites(path: string): Sites {
  return new Sites(loadConfig(path));
}
