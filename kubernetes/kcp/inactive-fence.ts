import { ApiError } from "../api-server.ts";
import type { Fence, FenceTarget } from "./fence.ts";
import { ANNOTATION, logicalClusterPath } from "./logical-cluster.ts";
import type { LogicalCluster } from "./logical-cluster.ts";

/**
 * The annotation `core.kcp.io/inactive`: 403 for every request. It also cancels the shard's wildcard context, so that
 * every list and watch over all clusters fails there until it is healed: used only where kcp's gate is off.
 */
export class InactiveFence implements Fence {
  readonly #target: FenceTarget;
  #resourceVersion: string | undefined;

  constructor(target: FenceTarget) {
    this.#target = target;
  }

  /** Nothing can be done ahead; the object's version makes `set` void once somebody else has changed it. */
  async prepare(): Promise<void> {
    const { shard, cluster } = this.#target;
    const { metadata } = await shard.json<LogicalCluster>({ path: logicalClusterPath(cluster) });
    this.#resourceVersion = metadata.resourceVersion as string;
  }

  async set({ signal }: { signal: AbortSignal }): Promise<void> {
    if (this.#resourceVersion === undefined) throw new Error("the fence has not been prepared");
    await this.#annotate("true", this.#resourceVersion, signal);
  }

  /** What is open has ended with {@link set}. */
  async cut(): Promise<void> {}

  /** As the object was read before the check: an attempt that is frozen in between does not lift another's fence. */
  async lift(): Promise<void> {
    const { shard, cluster, check } = this.#target;
    for (;;) {
      const { metadata } = await shard.json<LogicalCluster>({ path: logicalClusterPath(cluster) });
      if (metadata.annotations?.[ANNOTATION.inactive] === undefined) return;
      await check();
      try {
        return await this.#annotate(null, metadata.resourceVersion as string);
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 409)) throw error;
      }
    }
  }

  async #annotate(value: string | null, resourceVersion: string, signal?: AbortSignal): Promise<void> {
    const path = logicalClusterPath(this.#target.cluster);
    const body = { metadata: { resourceVersion, annotations: { [ANNOTATION.inactive]: value } } };
    await this.#target.shard.json({ method: "PATCH", path, body, signal });
  }

  async dismantle(): Promise<void> {
    try {
      await this.lift();
    } catch (error) {
      // After the move the object that carried the annotation is gone, and the fence with it.
      if (!(error instanceof ApiError && (error.status === 404 || error.status === 403))) throw error;
    }
  }
}
