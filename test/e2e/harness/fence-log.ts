import { prefixRange } from "../../../etcd/keys.ts";
import type { Store } from "../../../etcd/store.ts";
import { watch } from "../../../etcd/watch.ts";
import type { Change } from "../../../etcd/watch.ts";
import { SHARDS } from "./bed.ts";

/** kcp's LogicalClusterMigration, as far as its controller acts on it. */
export interface FenceState {
  readonly logicalCluster: string;
  readonly phase: string;
  readonly originShard: string;
  readonly destinationShard: string;
}

/** Whether a change is one of the fence of this cluster. */
export function isFence({ entry }: Change, cluster: string): boolean {
  return entry.key.includes("/logicalclustermigrations/") && entry.key.endsWith(`/rehome-${cluster}`);
}

export function fenceStateOf({ entry }: Change): FenceState {
  const { spec, status } = JSON.parse(entry.value.toString()) as {
    spec: { logicalCluster: string; destinationShard: string };
    status?: { phase?: string; originShard?: string };
  };
  return { ...spec, phase: status?.phase ?? "", originShard: status?.originShard ?? "" };
}

/** Ms since the epoch. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

interface SeenState extends FenceState {
  /** Ms since the epoch. */
  readonly at: number;
}

/** Every state that any fence has had, as the store of its workspace's shard has it. */
export class FenceLog implements AsyncDisposable {
  readonly #states: SeenState[] = [];
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #broken: unknown;

  static async start(store: Store): Promise<FenceLog> {
    const log = new FenceLog();
    log.#running = log.#follow(store, (await store.head()) + 1n).catch((error: unknown) => {
      log.#broken = error;
    });
    return log;
  }

  /** @throws what has broken the watch, without which not all have been seen. */
  get states(): readonly SeenState[] {
    if (this.#broken !== undefined) throw this.#broken;
    return this.#states;
  }

  /**
   * When the cluster was fenced, from each mark or cut until kcp had dropped the fence, those within this time. An attempt of a
   * cutover that came back, or was given up, fences before the last one, and no report tells of it.
   */
  spans(cluster: string, within: Span): Span[] {
    const spans: Span[] = [];
    let from: number | undefined;
    for (const state of this.states.filter(({ logicalCluster }) => logicalCluster === cluster)) {
      if (isFencing(state)) from ??= state.at;
      if (state.phase !== "Completed" || from === undefined) continue;
      spans.push({ from, until: state.at });
      from = undefined;
    }
    return spans.filter((span) => span.from >= within.from && span.until <= within.until);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #follow(store: Store, from: bigint): Promise<void> {
    const range = prefixRange(`${store.prefix}/migration.kcp.io/logicalclustermigrations/`);
    for await (const changes of watch(store, { range, from, signal: this.#stop.signal })) {
      const at = Date.now();
      for (const change of changes) {
        if (change.type === "Put") this.#states.push({ ...fenceStateOf(change), at });
      }
    }
  }
}

/** Neither parked nor on the way off. */
function isFencing({ phase, originShard }: FenceState): boolean {
  return phase === "Migrating" || (phase === "Preparing" && isShard(originShard));
}

const isShard = (name: string) => (SHARDS as readonly string[]).includes(name);

/**
 * What kcp's controller does in a state (kcp v0.32.3, pkg/reconciler/migration/logicalclustermigration/reconciler.go)
 * that a fence must never be in; undefined for all others.
 */
export function harmOf({
  logicalCluster,
  phase,
  originShard,
  destinationShard,
}: FenceState): string | undefined {
  if (phase === "OriginCleanup") return "the origin deletes everything";
  const copies = ["", "Preparing", "Migrating"].includes(phase) && !logicalCluster.startsWith("rehome-");
  // Where none is named, the shard that has the cluster is the origin.
  if (copies && originShard === "") return "any shard may take itself for the origin";
  if (copies && isShard(originShard) && originShard === destinationShard)
    return `${originShard} copies onto itself`;
  return undefined;
}
