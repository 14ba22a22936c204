import { ApiError } from "../api-server.ts";
import type { Fence, FenceTarget } from "./fence.ts";
import { annotateChecked } from "../objects.ts";
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
    const { shard, cluster } = this.#target;
    const resourceVersion = this.#resourceVersion;
    if (resourceVersion === undefined) throw new Error("the fence has not been prepared");
    const body = { metadata: { resourceVersion, annotations: { [ANNOTATION.inactive]: "true" } } };
    await shard.json({ method: "PATCH", path: logicalClusterPath(cluster), body, signal });
  }

  /** What is open has ended with {@link set}. */
  async cut(): Promise<void> {}

  async lift(): Promise<void> {
    const { shard, cluster, check } = this.#target;
    await annotateChecked(shard, logicalClusterPath(cluster), { [ANNOTATION.inactive]: null }, check);
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
