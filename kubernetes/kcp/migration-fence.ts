import { ApiError } from "../api-server.ts";
import type { ApiServer } from "../api-server.ts";
import { FenceTakenError } from "./fence.ts";
import type { Fence, FenceClaim, FenceTarget } from "./fence.ts";
import { ANNOTATION, clusterPath, logicalClusterPath } from "./logical-cluster.ts";
import { annotateChecked, removeObject } from "../objects.ts";
import { pollUntil } from "../wait.ts";

interface Migration {
  metadata: { uid: string; resourceVersion: string; annotations?: Record<string, string> };
  spec: { logicalCluster: string; destinationShard: string };
  status?: { phase?: string; originShard?: string; conditions?: readonly object[] };
}

/** Spec or status, never both: they are written through different paths. */
type Change =
  | { readonly spec: Partial<Migration["spec"]> }
  | { readonly status: NonNullable<Migration["status"]> };

const BINDING = "migration.kcp.io";
const CLAIM = "rehome.dev/claim";
/** Names no shard, so nobody takes itself for that end of the migration. */
const NO_SHARD = "rehome-none";
/** Names no cluster, so nobody takes itself for the origin while the object is being made ready. */
const NO_CLUSTER = "rehome-idle";
/** Both ends act in these; one that is origin and destination would copy onto itself and delete everything. */
const PARKED = { phase: "Preparing", originShard: NO_SHARD };
const MARKED = { phase: "Migrating", originShard: NO_SHARD };
/**
 * What kcp is about to say of the copy that it cannot make while marked, letter for letter. Said beforehand it writes
 * nothing, so no write of ours conflicts with one, and none of the ten requests that its client may make at once
 * (client-go's default; then five a second) is missing when the cut needs it.
 */
const NOT_COPIED = {
  type: "DataCopied",
  status: "False",
  severity: "Error",
  reason: "CopyFailed",
  message: `failed to get origin shard "${NO_SHARD}": shard.core.kcp.io "${NO_SHARD}" not found`,
};
const FENCING = new Set(["Preparing", "Migrating"]);
/** The mark may stand in these, and is not set in them. */
const LIFTING = new Set(["DestinationFinalize", "Failed"]);
const SETTLE = { everyMs: 50, deadlineMs: 20_000 };
const CUT = { everyMs: 5, deadlineMs: 20_000 };

/**
 * kcp's own fence (kcp v0.32.3, pkg/reconciler/migration/logicalclustermigration), in two steps, because its own one
 * fails whatever is under way. The names are those of the object's fields as the origin, S, is made to read them:
 *
 * | state  | phase               | originShard | destinationShard | what S does                                         |
 * | ------ | ------------------- | ----------- | ---------------- | --------------------------------------------------- |
 * | parked | Preparing           | none        | S                | nothing                                             |
 * | marked | Migrating           | none        | S                | refuses new requests, 503 with Retry-After; copies  |
 * |        |                     |             |                  | nothing, since it finds no shard of that name       |
 * | cut    | Preparing, and then | S           | none             | ends all that is still open for the cluster, and    |
 * |        | Migrating, by kcp   |             |                  | says so by the change of phase                      |
 * | lifted | DestinationFinalize | S           | S                | drops the mark, relists, sets phase Completed       |
 *
 * Or, at once: parked with no destination, and then cut, which marks too.
 *
 * Two rules keep it harmless. S is never both ends while the phase is one of FENCING. And every change carries the
 * resourceVersion that it was decided on, under a claim that each attempt renews, so an attempt that was given up and
 * wakes up later changes nothing.
 */
export class MigrationFence implements Fence {
  readonly #target: FenceTarget;
  readonly #claim: FenceClaim;
  #known: Migration | undefined;

  constructor(target: FenceTarget, claim: FenceClaim) {
    this.#target = target;
    this.#claim = claim;
  }

  async prepare(): Promise<void> {
    const { cluster, shardName, shard } = this.#target;
    await this.#ensureBinding();
    await this.#target.check();
    await this.#ensureMigration();
    const { metadata, status } = await this.#takeOver();
    // An earlier attempt has set the fence already.
    if (FENCING.has(status?.phase ?? "") && !isPartOf(PARKED, status)) return;
    // One that ended while it took the fence off has left the mark, under which nothing could be made ready.
    if (LIFTING.has(status?.phase ?? "")) await this.lift();
    await this.#change(({ status: now }) => !isPartOf(PARKED, now) && { status: PARKED });
    const ours = { destinationShard: shardName, logicalCluster: cluster };
    await this.#change(({ spec }) => !isPartOf(ours, spec) && { spec: ours });
    // By id, as kcp compares it; the workspace may be configured by its path.
    const home = metadata.annotations?.[ANNOTATION.cluster];
    const claim = { [ANNOTATION.migrating]: `${home}:${this.#name}` };
    await annotateChecked(shard, logicalClusterPath(cluster), claim, this.#target.check);
  }

  async set({ atOnce, signal }: { atOnce: boolean; signal: AbortSignal }): Promise<void> {
    if (atOnce)
      await this.#change(({ status }) => isPartOf(PARKED, status) && this.#withoutDestination(), signal);
    await this.#change(({ spec, status }) => {
      const isUncut = spec.destinationShard !== NO_SHARD;
      // From here on the origin marks by itself, after a restart too.
      if (isPartOf(PARKED, status)) return isUncut ? { status: marked() } : this.#cutting();
      // On the way to the cut and after it, it has to be told again.
      return !isUncut && status?.phase !== "Preparing" && this.#cutting();
    }, signal);
  }

  /** Between mark and cut lie two writes and the turn of kcp's controller, some 40 ms: enough for most requests. */
  async cut({ seen, signal }: { seen?: Promise<unknown> | undefined; signal: AbortSignal }): Promise<void> {
    await this.#change(
      ({ spec }) => spec.destinationShard !== NO_SHARD && this.#withoutDestination(),
      signal,
    );
    await this.#change(({ status }) => status?.originShard === NO_SHARD && this.#cutting(), signal);
    const stop = new AbortController();
    const told = this.#awaitCut(AbortSignal.any([signal, stop.signal]));
    try {
      await (seen ? Promise.race([told, seen]) : told);
    } finally {
      stop.abort();
      told.catch(() => undefined);
    }
  }

  async #awaitCut(signal: AbortSignal): Promise<void> {
    await pollUntil(
      "kcp has ended what was open",
      async () => {
        const { status } = await this.#target.frontProxy.json<Migration>({ path: this.#path, signal });
        return status?.phase === "Migrating" || `phase ${status?.phase ?? "none"}`;
      },
      { ...CUT, signal },
    );
  }

  /**
   * The origin is made to take itself for the destination of a move that is over: it drops the mark and relists. The
   * phase is set before the shard's name; the other way round it would begin to copy onto itself.
   */
  async lift(): Promise<void> {
    const origin = this.#target.shardName;
    if (!(await this.#find())) return;
    await this.#takeOver();
    const over = { phase: "DestinationFinalize", originShard: origin };
    await this.#change(({ spec, status }) => {
      const done = status?.phase === "Completed" && spec.destinationShard === origin;
      return !done && !isPartOf(over, status) && { status: over };
    });
    await this.#change(
      ({ spec }) => spec.destinationShard !== origin && { spec: { destinationShard: origin } },
    );
    await pollUntil(
      "kcp has dropped the fence",
      async () => {
        const phase = (await this.#find())?.status?.phase ?? "none";
        return phase === "Completed" || `phase ${phase}`;
      },
      SETTLE,
    );
  }

  async dismantle(isGone: boolean): Promise<void> {
    const migration = await this.#find();
    if (!migration) return;
    // kcp reads the LogicalCluster to drop its mark. Without one the mark stays in the origin's memory, for an id that
    // nobody will have again.
    if (migration.spec.logicalCluster !== NO_CLUSTER && !isGone) await this.lift();
    await this.#delete();
  }

  /** Deletes the object as this attempt knows it: another's would take its mark's only way back with it. */
  async #delete(): Promise<void> {
    for (;;) {
      const { uid, resourceVersion } = (await this.#takeOver()).metadata;
      const body = { preconditions: { uid, resourceVersion } };
      try {
        return await removeObject(this.#target.frontProxy, this.#path, body);
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 409)) throw error;
      }
    }
  }

  #withoutDestination(): Change {
    return { spec: { destinationShard: NO_SHARD } };
  }

  #cutting(): Change {
    return { status: { phase: "Preparing", originShard: this.#target.shardName } };
  }

  get #name(): string {
    return fenceName(this.#target.cluster);
  }

  get #collection(): string {
    return clusterPath(this.#target.workspace, "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations");
  }

  get #bindings(): string {
    return clusterPath(this.#target.workspace, "/apis/apis.kcp.io/v1alpha2/apibindings");
  }

  get #path(): string {
    return `${this.#collection}/${this.#name}`;
  }

  async #find(): Promise<Migration | undefined> {
    const { frontProxy } = this.#target;
    try {
      return await frontProxy.findServed<Migration>({ path: this.#path });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
      // Without its binding the API is not served at all, and nobody has made one.
      if ((await frontProxy.findServed({ path: `${this.#bindings}/${BINDING}` })) === undefined)
        return undefined;
      throw error;
    }
  }

  /** Writes this attempt's claim, so that what any earlier attempt has read is out of date. */
  async #takeOver(): Promise<Migration> {
    for (;;) {
      const migration = await this.#target.frontProxy.json<Migration>({ path: this.#path });
      const held = parseClaim(migration);
      if (held !== undefined && held.epoch > this.#claim.epoch) {
        throw new FenceTakenError(`${this.#name} is held by a newer attempt, of ${held.move}`);
      }
      const claimed = await this.#patch(migration, {
        metadata: { annotations: { [CLAIM]: JSON.stringify(this.#claim) } },
      });
      if (claimed) return claimed;
    }
  }

  /** One conditional change, decided anew when kcp has changed the object meanwhile. */
  async #change(decide: (migration: Migration) => Change | false, signal?: AbortSignal): Promise<void> {
    const input = { path: this.#path, signal };
    for (;;) {
      signal?.throwIfAborted();
      const migration = this.#known ?? (await this.#target.frontProxy.json<Migration>(input));
      if (migration.metadata.annotations?.[CLAIM] !== JSON.stringify(this.#claim)) {
        throw new FenceTakenError(`${this.#name} has been taken over`);
      }
      const change = decide(migration);
      if (!change) return;
      this.#refuseBothEnds(migration, change);
      if (await this.#patch(migration, change, signal)) return;
    }
  }

  /** Where no origin is named yet, it is the shard that has the cluster. */
  #refuseBothEnds({ spec, status }: Migration, change: Change): void {
    const { shardName } = this.#target;
    const then = { ...spec, ...status, ...("spec" in change ? change.spec : change.status) };
    const { phase = "", originShard = shardName, destinationShard } = then;
    if (!FENCING.has(phase) || originShard !== shardName || destinationShard !== shardName) return;
    throw new FenceTakenError(`${this.#name} in phase ${phase} would make ${shardName} copy onto itself`);
  }

  /** @returns the object as it is then, or undefined when somebody else has changed it. */
  async #patch(migration: Migration, change: object, signal?: AbortSignal): Promise<Migration | undefined> {
    const { resourceVersion } = migration.metadata;
    const metadata = { resourceVersion, ...("metadata" in change ? (change.metadata as object) : {}) };
    const path = "status" in change ? `${this.#path}/status` : this.#path;
    try {
      const body = { ...change, metadata };
      this.#known = await this.#target.frontProxy.json<Migration>({ method: "PATCH", path, body, signal });
      return this.#known;
    } catch (error) {
      this.#known = undefined;
      if (error instanceof ApiError && error.status === 409) return undefined;
      throw error;
    }
  }

  async #ensureBinding(): Promise<void> {
    const { frontProxy, workspace } = this.#target;
    const collection = this.#bindings;
    await createIfMissing(frontProxy, collection, {
      apiVersion: "apis.kcp.io/v1alpha2",
      kind: "APIBinding",
      metadata: { name: BINDING },
      spec: { reference: { export: { path: "root", name: BINDING } } },
    });
    await pollUntil(
      `APIBinding ${BINDING} in ${workspace} is bound`,
      async () => {
        const path = `${collection}/${BINDING}`;
        const { status } = await frontProxy.json<{ status?: { phase?: string } }>({ path });
        return status?.phase === "Bound" || `phase ${status?.phase ?? "none"}`;
      },
      SETTLE,
    );
  }

  async #ensureMigration(): Promise<void> {
    // Right after the binding is Bound, the API may not be served for a moment.
    await pollUntil(
      "kcp serves LogicalClusterMigration",
      async () => {
        await createIfMissing(this.#target.frontProxy, this.#collection, {
          apiVersion: "migration.kcp.io/v1alpha1",
          kind: "LogicalClusterMigration",
          metadata: { name: this.#name },
          spec: { logicalCluster: NO_CLUSTER, destinationShard: NO_SHARD },
        });
        return true;
      },
      SETTLE,
    );
  }
}

/** Name of the LogicalClusterMigration of a cluster. */
export function fenceName(cluster: string): string {
  return `rehome-${cluster}`;
}

function marked(): NonNullable<Migration["status"]> {
  return { ...MARKED, conditions: [{ ...NOT_COPIED, lastTransitionTime: new Date().toISOString() }] };
}

function parseClaim({ metadata }: Migration): FenceClaim | undefined {
  const claim = metadata.annotations?.[CLAIM];
  return claim === undefined ? undefined : (JSON.parse(claim) as FenceClaim);
}

function isPartOf(part: Readonly<Record<string, string>>, whole: object | undefined): boolean {
  return Object.entries(part).every(
    ([key, value]) => whole !== undefined && Object.entries(whole).some(([k, v]) => k === key && v === value),
  );
}

async function createIfMissing(server: ApiServer, collection: string, body: unknown): Promise<void> {
  try {
    await server.json({ method: "POST", path: collection, body });
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
  }
}
