import type { EtcdCluster } from "./cluster.ts";
import { converge } from "./converge.ts";
import { MembershipError } from "./errors.ts";
import type { Alarm, MemberId, Wait } from "./types.ts";

/** How far a member is behind the leader. The member is asked first, so the figures are never too small. */
export interface SyncState {
  readonly id: MemberId;
  readonly learner: boolean;
  readonly revision: bigint;
  readonly lagRevisions: bigint;
  readonly lagIndexes: bigint;
  /** Applied index over the leader's: etcd itself promotes from 0.9 on, which at a high index is nothing. */
  readonly indexRatio: number;
  /** Leader that the member knows; it is in sync with no other. */
  readonly leader: MemberId | undefined;
  /** Alarms of the whole cluster and the member's own errors, in etcd's words; being in sync does not depend on them. */
  readonly errors: readonly string[];
}

export interface SyncLimit {
  readonly maxLagRevisions: number;
}

const MIN_INDEX_RATIO = 0.9;

/** @throws MembershipError `unreachable` when the member does not answer; `no-leader`. */
export async function syncState(
  cluster: EtcdCluster,
  id: MemberId,
  signal?: AbortSignal,
): Promise<SyncState> {
  const { status } = await cluster.find(id, signal);
  const { status: leader } = await cluster.leader(signal);
  return {
    id,
    learner: status.learner,
    revision: status.revision,
    lagRevisions: behind(status.revision, leader.revision),
    lagIndexes: behind(status.raftAppliedIndex, leader.raftIndex),
    indexRatio: Math.min(1, Number(status.raftAppliedIndex) / Math.max(1, Number(leader.raftIndex))),
    leader: status.leader === leader.id ? leader.id : undefined,
    errors: status.errors,
  };
}

function behind(mine: bigint, its: bigint): bigint {
  return its > mine ? its - mine : 0n;
}

/** @returns why the member is not in sync, or undefined when it is. */
export function whyNotInSync(state: SyncState, { maxLagRevisions }: SyncLimit): string | undefined {
  if (state.leader === undefined) return "it does not follow the leader";
  if (state.indexRatio < MIN_INDEX_RATIO) return `it has applied ${state.indexRatio} of the log`;
  if (state.lagRevisions > BigInt(maxLagRevisions)) return `it is ${state.lagRevisions} revisions behind`;
  return undefined;
}

/** Waits until the member follows the leader closely enough. */
export async function awaitInSync(
  cluster: EtcdCluster,
  id: MemberId,
  limit: SyncLimit,
  wait: Wait,
): Promise<SyncState> {
  return await converge(
    cluster,
    {
      name: `wait until ${id} is in sync`,
      look: async (signal) => await syncState(cluster, id, signal),
      isDone: (state) => (whyNotInSync(state, limit) === undefined ? state : undefined),
      async act(state) {
        const why = whyNotInSync(state, limit) ?? "";
        throw new MembershipError(cluster.name, "Status", "learner-not-ready", `${id}: ${why}`);
      },
    },
    wait,
  );
}

/** Alarms raised anywhere in the cluster, as the leader lists them; empty when all is well. */
export async function listAlarms(cluster: EtcdCluster, signal?: AbortSignal): Promise<Alarm[]> {
  return await cluster.read(async (member, options) => await member.alarms(options), signal);
}
