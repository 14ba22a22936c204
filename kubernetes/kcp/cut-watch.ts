import type { ApiServer } from "../api-server.ts";
import { clusterPath } from "./logical-cluster.ts";

/** Selects one object that nearly every cluster has, so that the first event tells that the watch is open. */
const PATH = "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Ddefault";

/**
 * A watch in the cluster at every replica of its shard. kcp ends it together with all else that is open for the cluster
 * (kcp v0.32.3, pkg/server/filters/perclustercontext.go), so its end tells of the cut where kcp's own word comes too late.
 */
export class CutWatch implements Disposable {
  /** Resolves when every replica has ended its watch; never, where one could not be opened. */
  readonly ended: Promise<unknown>;
  readonly #replicas: number;
  readonly #stop = new AbortController();
  #open = 0;

  constructor(replicas: readonly ApiServer[], cluster: string) {
    this.#replicas = replicas.length;
    this.ended = Promise.all(replicas.map(async (replica) => await this.#follow(replica, cluster)));
  }

  /** Only while it is can its end prove anything: a watch that ended before was not ended by the cut. */
  get isOpen(): boolean {
    return this.#open === this.#replicas;
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }

  async #follow(replica: ApiServer, cluster: string): Promise<void> {
    const events = replica.lines({ path: clusterPath(cluster, PATH), signal: this.#stop.signal });
    // One that is refused was never open, and never ends.
    const first = await events.next().catch(() => undefined);
    if (first === undefined || first.done === true) return await new Promise(() => undefined);
    this.#open += 1;
    try {
      while ((await events.next()).done !== true);
    } catch {
      // Broken off: it is not open any more.
    }
    this.#open -= 1;
  }
}
