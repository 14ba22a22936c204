import type { EtcdCluster, Located } from "./cluster.ts";
import { listMembers } from "./converge.ts";
import { MembershipError, RefusedError } from "./errors.ts";
import { judgeStep } from "./plan.ts";
import type { Evidence, PlannedMember, Site, Step } from "./plan.ts";
import { listAlarms } from "./sync.ts";
import type { SyncLimit } from "./sync.ts";
import type { Member, MemberId } from "./types.ts";

export interface Survey {
  readonly clusterId: string;
  readonly leader: MemberId | undefined;
  /** For `judgeStep`. */
  readonly members: readonly PlannedMember[];
  /** The same members, in the same order, as the member list has them. */
  readonly list: readonly Member[];
}

/**
 * Reads what `judgeStep` needs: the member list linearizably, and what each member says about itself. A member that
 * does not answer counts as not healthy.
 * @param siteOf tells where a member is, e.g. by its peer URL. @throws what it throws for members it does not know.
 */
export async function surveyMembers(
  cluster: EtcdCluster,
  siteOf: (member: Member) => Site,
  { maxLagRevisions }: SyncLimit,
  signal?: AbortSignal,
): Promise<Survey> {
  const { answered } = await cluster.locate(signal);
  const { clusterId, members: list } = await listMembers(cluster, signal);
  const known = answered.filter(({ status }) => status.clusterId === clusterId);
  const leader = known.find(({ status }) => status.leader === status.id);
  const toPlanned = (member: Member): PlannedMember => {
    const own = known.find(({ status }) => status.id === member.id);
    const healthy = own !== undefined && follows(own, leader);
    return {
      id: member.id,
      site: siteOf(member),
      learner: member.learner,
      started: member.name !== "",
      healthy,
      inSync: healthy && lag(own, leader) <= BigInt(maxLagRevisions),
      leader: leader?.status.id === member.id,
    };
  };
  return { clusterId, leader: leader?.status.id, members: list.map(toPlanned), list };
}

export interface Permission {
  readonly siteOf: (member: Member) => Site;
  readonly step: Step;
  readonly limit: SyncLimit;
  readonly hashesEqual: boolean;
}

/**
 * Makes the `permit` of a change: it judges the step on the cluster as it is at that moment.
 * @returns a function that throws RefusedError `endangers-quorum` where the step is wrong even with every member
 *   healthy and in sync, `is-leader` where only leadership is in the way, and else MembershipError `unhealthy`, which the change waits out.
 */
export function permitStep(
  cluster: EtcdCluster,
  { siteOf, step, limit, hashesEqual }: Permission,
): (signal: AbortSignal) => Promise<void> {
  return async (signal) => {
    const { members } = await surveyMembers(cluster, siteOf, limit, signal);
    const alarms = await listAlarms(cluster, signal);
    const evidence: Evidence = { hashesEqual, alarms: alarms.map(({ alarm }) => alarm) };
    const { refusals } = judgeStep(members, step, evidence);
    if (refusals.length === 0) return;
    const reasons = refusals.join("; ");
    const mended = members.map((member) => ({ ...member, started: true, healthy: true, inSync: true }));
    if (judgeStep(mended, step, evidence).refusals.length > 0) {
      const led = mended.map((member) => ({ ...member, leader: false }));
      const isLeader = judgeStep(led, step, evidence).refusals.length === 0;
      throw new RefusedError(isLeader ? "is-leader" : "endangers-quorum", `${cluster.name}: ${reasons}`);
    }
    throw new MembershipError(cluster.name, step.kind, "unhealthy", reasons);
  };
}

function follows({ status }: Located, leader: Located | undefined): boolean {
  // Not by its `errors`: each member lists the alarms of the whole cluster there, and those are judged by themselves.
  return leader !== undefined && status.leader === leader.status.id;
}

/** May be a few revisions too large or too small: the members are asked at the same time. */
function lag({ status }: Located, leader: Located | undefined): bigint {
  return leader === undefined ? 0n : leader.status.revision - status.revision;
}
