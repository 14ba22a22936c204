import { loadConfig } from "./config.ts";
import type { SitesConfig } from "./config.ts";
import { KcpSite } from "./kcp.ts";

/** All places that a worker can reach. A kind whose sites are not configured says so when it is used. */
export class Sites {
  readonly #config: SitesConfig;
  #kcp: KcpSite | undefined;

  constructor(config: SitesConfig) {
    this.#config = config;
  }

  /** @throws Error when the configuration has no section `kcp`. */
  get kcp(): KcpSite {
    if (!this.#config.kcp)
      throw new Error("the worker's configuration has no section kcp: add it to rehome.yaml");
    this.#kcp ??= new KcpSite(this.#config.kcp);
    return this.#kcp;
  }

  async close(): Promise<void> {
    await this.#kcp?.close();
  }
}

/** @throws Error that names the file, the field and what is wrong with it. */
export function loadSites(path: string): Sites {
  return new Sites(loadConfig(path));
}
