import { ApiError } from "../api-server.ts";
import type { ApiServer } from "../api-server.ts";
import { ANNOTATION, annotate, clusterPath } from "./logical-cluster.ts";
import { pollUntil } from "./probe.ts";

/** Stops all requests for one cluster at its shard. Every method may be called again after it was cut short. */
export interface Fence {
  /** Everything that can be done ahead, so that `set` is one call. Nothing is stopped yet. */
  prepare(): Promise<void>;
  /** Asks for the fence. It is in effect when every replica's probe says so, and not before. */
  set(): Promise<void>;
  /** Takes the fence off. The cluster's request context may stay cancelled: the caller heals it. */
  lift(): Promise<void>;
  /** Takes the fence off and leaves nothing of it behind. */
  dismantle(): Promise<void>;
}

export interface FenceTarget {
  readonly cluster: string;
  /** Name and API server of the shard to fence. */
  readonly shardName: string;
  readonly shard: ApiServer;
  readonly frontProxy: ApiServer;
  /** Workspace (id or path) that holds kcp's LogicalClusterMigration objects. */
  readonly workspace: string;
}

interface Migration {
  spec: { logicalCluster: string; destinationShard: string };
  status?: { phase?: string; originShard?: string };
}

const BINDING = "migration.kcp.io";
/** Names no shard, so nobody takes itself for the destination and nothing is ever copied by kcp. */
const NO_SHARD = "rehome-none";
/** Names no cluster, so nobody takes itself for the origin while the object is being made ready. */
const NO_CLUSTER = "rehome-idle";
const SETTLE = { everyMs: 50, deadlineMs: 20_000 };

/**
 * kcp's own fence: a LogicalClusterMigration in phase Preparing makes the origin refuse every request for the cluster
 * with 503 and Retry-After (kcp v0.32.3, pkg/reconciler/migration/logicalclustermigration). The object is made ahead
 * and parked in phase DestinationFinalize, which only a destination acts on, and the LogicalCluster is claimed for it,
 * so that fencing is one patch of its status.
 */
export class MigrationFence implements Fence {
  readonly #target: FenceTarget;

  constructor(target: FenceTarget) {
    this.#target = target;
  }

  async prepare(): Promise<void> {
    const { cluster, shardName, shard } = this.#target;
    await this.#ensureBinding();
    const migration = await this.#ensureMigration();
    // Park it first: in any other phase a change of the spec would be acted upon.
    if (migration.spec.destinationShard !== NO_SHARD) await this.#patchSpec({ destinationShard: NO_SHARD });
    await this.#patchStatus({ phase: "DestinationFinalize", originShard: shardName });
    await this.#patchSpec({ logicalCluster: cluster });
    await annotate(shard, cluster, ANNOTATION.migrating, `${this.#target.workspace}:${this.#name}`);
  }

  async set(): Promise<void> {
    await this.#patchStatus({ phase: "Preparing" });
  }

  /**
   * The origin is made to take itself for the destination of a move that is over: it drops the mark and relists. The
   * phase is set before the shard's name; the other way round it would begin to copy onto itself.
   */
  async lift(): Promise<void> {
    if (!(await this.#find())) return;
    await this.#patchStatus({ phase: "DestinationFinalize", originShard: this.#target.shardName });
    await this.#patchSpec({ destinationShard: this.#target.shardName });
    await pollUntil("kcp has dropped the fence", async () => {
      const phase = (await this.#find())?.status?.phase ?? "none";
      return phase === "Completed" || `phase ${phase}`;
    }, SETTLE);
  }

  async dismantle(): Promise<void> {
    const migration = await this.#find();
    if (!migration) return;
    if (migration.status?.phase !== "Completed" && migration.spec.logicalCluster !== NO_CLUSTER) await this.lift();
    await this.#target.frontProxy.request({ method: "DELETE", path: this.#path });
  }

  get #name(): string {
    return `rehome-${this.#target.cluster}`;
  }

  get #collection(): string {
    return clusterPath(this.#target.workspace, "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations");
  }

  get #path(): string {
    return `${this.#collection}/${this.#name}`;
  }

  async #find(): Promise<Migration | undefined> {
    return this.#target.frontProxy.find<Migration>({ path: this.#path });
  }

  async #ensureBinding(): Promise<void> {
    const { frontProxy, workspace } = this.#target;
    const collection = clusterPath(workspace, "/apis/apis.kcp.io/v1alpha2/apibindings");
    await createIfMissing(frontProxy, collection, {
      apiVersion: "apis.kcp.io/v1alpha2",
      kind: "APIBinding",
      metadata: { name: BINDING },
      spec: { reference: { export: { path: "root", name: BINDING } } },
    });
    await pollUntil(`APIBinding ${BINDING} in ${workspace} is bound`, async () => {
      const path = `${collection}/${BINDING}`;
      const { status } = await frontProxy.json<{ status?: { phase?: string } }>({ path });
      return status?.phase === "Bound" || `phase ${status?.phase ?? "none"}`;
    }, SETTLE);
  }

  async #ensureMigration(): Promise<Migration> {
    // Right after the binding is Bound, the API may not be served for a moment.
    await pollUntil("kcp serves LogicalClusterMigration", async () => {
      await createIfMissing(this.#target.frontProxy, this.#collection, {
        apiVersion: "migration.kcp.io/v1alpha1",
        kind: "LogicalClusterMigration",
        metadata: { name: this.#name },
        spec: { logicalCluster: NO_CLUSTER, destinationShard: NO_SHARD },
      });
      return true;
    }, SETTLE);
    return this.#target.frontProxy.json<Migration>({ path: this.#path });
  }

  async #patchSpec(spec: Partial<Migration["spec"]>): Promise<void> {
    await this.#target.frontProxy.json({ method: "PATCH", path: this.#path, body: { spec } });
  }

  async #patchStatus(status: NonNullable<Migration["status"]>): Promise<void> {
    await this.#target.frontProxy.json({ method: "PATCH", path: `${this.#path}/status`, body: { status } });
  }
}

/**
 * The annotation `core.kcp.io/inactive`: 403 for every request. It also cancels the shard's wildcard context, so that
 * every list and watch over all clusters fails there until it is healed: used only where kcp's gate is off.
 */
export class InactiveFence implements Fence {
  readonly #target: FenceTarget;

  constructor(target: FenceTarget) {
    this.#target = target;
  }

  async prepare(): Promise<void> {
    // One patch sets this fence, and nothing can be done ahead of it.
  }

  async set(): Promise<void> {
    await annotate(this.#target.shard, this.#target.cluster, ANNOTATION.inactive, "true");
  }

  async lift(): Promise<void> {
    await annotate(this.#target.shard, this.#target.cluster, ANNOTATION.inactive, null);
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

async function createIfMissing(server: ApiServer, collection: string, body: unknown): Promise<void> {
  try {
    await server.json({ method: "POST", path: collection, body });
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
  }
}
