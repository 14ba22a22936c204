import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { inside } from "../../network/places.ts";
import { Server } from "../../process.ts";
import type { PingResult } from "../programs/ping.ts";
import type { TestbedSeed } from "../node.ts";

export interface TunnelResult extends PingResult {
  readonly side: string;
}

const program = join(import.meta.dirname, "..", "programs", "main.ts");

/**
 * Pings a pod from the nodes of seeds, by datagrams: the tunnel alone, where a request through the pod proxy waits for
 * the API server and for etcd as well.
 */
export class TunnelPings {
  readonly #to: string;
  readonly #dir: string;
  readonly #running = new Map<string, Server>();
  readonly #results: TunnelResult[] = [];

  /**
   * @param to the pod's address and port
   * @param dir for logs
   */
  constructor(to: string, dir: string) {
    this.#to = to;
    this.#dir = dir;
  }

  /** From now on these seeds, and no others, are to reach the pod. */
  async setSeeds(seeds: readonly TestbedSeed[]): Promise<void> {
    const names = seeds.map(({ api }) => api.name);
    await Promise.all([...this.#running.keys()].filter((name) => !names.includes(name)).map(this.#stop));
    await Promise.all(seeds.filter(({ api }) => !this.#running.has(api.name)).map(this.#start));
  }

  /** Of the seeds whose pings have ended. */
  get results(): readonly TunnelResult[] {
    return this.#results;
  }

  readonly #start = async ({ place, api }: TestbedSeed): Promise<void> => {
    const server = new Server({
      name: `pings from ${api.name}`,
      ...inside(place, process.execPath, [program, "ping", `--to=${this.#to}`]),
      logFile: join(this.#dir, `pings-${api.name}.log`),
      probe: async () => undefined,
    });
    this.#running.set(api.name, await server.start());
  };

  readonly #stop = async (name: string): Promise<void> => {
    const server = this.#running.get(name)!;
    this.#running.delete(name);
    await server.stop();
    const log = await readFile(server.spec.logFile, "utf8");
    this.#results.push({ side: name, ...(JSON.parse(log.trimEnd().split("\n").at(-1)!) as PingResult) });
  };
}
