import type { ApiServer } from "../api-server.ts";

/** Stops all requests for one cluster at its shard. Every method may be called again after it was cut short. */
export interface Fence {
  /** Everything that can be done ahead, so that `set` is one call. Nothing is stopped yet. */
  prepare(): Promise<void>;
  /**
   * Asks for the fence. New requests are refused when every replica's probe says so, and not before.
   * @param how.atOnce for a cluster that is so large that {@link cut} would come much later: it is made in the same breath
   */
  set(how: { readonly atOnce: boolean; readonly signal: AbortSignal }): Promise<void>;
  /**
   * Ends what is still open for the cluster: watches, and requests that came before the fence and take long. To be called
   * when new ones are refused. Resolves when kcp says that it is done, or with `seen`.
   */
  cut(options: { readonly seen?: Promise<unknown> | undefined; readonly signal: AbortSignal }): Promise<void>;
  /** Takes the fence off. The cluster's request context may stay cancelled: the caller heals it. */
  lift(): Promise<void>;
  /**
   * Takes the fence off and leaves nothing of it behind.
   * @param isGone the cluster is on no shard any more, so nobody can be seen to take the fence off.
   */
  dismantle(isGone: boolean): Promise<void>;
}

export interface FenceTarget {
  readonly cluster: string;
  /** Name and API server of the shard to fence. */
  readonly shardName: string;
  readonly shard: ApiServer;
  readonly frontProxy: ApiServer;
  /** Workspace (id or path) that holds kcp's LogicalClusterMigration objects. */
  readonly workspace: string;
  /** Asked between reading and changing. Throws when this attempt may not touch the fence any more. */
  readonly check: () => Promise<void>;
}

/** Who works on the fence: of two attempts of one move, the one with the higher epoch. */
export interface FenceClaim {
  readonly move: string;
  readonly epoch: number;
}

/** A newer attempt, or another move, has taken the fence over: this attempt must not touch it any more. */
export class FenceTakenError extends Error {
  override readonly name = "FenceTakenError";
}
