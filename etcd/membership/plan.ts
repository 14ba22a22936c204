import type { MemberId } from "./types.ts";

/**
 * Which change of membership may be made next, by arithmetic alone. A cluster of n voters needs n/2+1 of them (rounded
 * down); a change is refused unless its outcome has them, one to spare, and all of those that it needs at one site, so
 * that a cut between the sites leaves one of them working.
 */

export type Site = "source" | "destination";

export interface PlannedMember {
  readonly id: MemberId;
  readonly site: Site;
  readonly learner: boolean;
  /** It has started before: its name is known. */
  readonly started: boolean;
  /** It answers and follows the leader. */
  readonly healthy: boolean;
  /** It is close enough behind the leader, by the caller's limit. */
  readonly inSync: boolean;
  readonly leader: boolean;
}

export type Step =
  | { readonly kind: "add-learner" }
  | { readonly kind: "promote"; readonly id: MemberId }
  /**
   * The one promotion after which both sites have half of the voters, so that neither could go on alone. The caller
   * removes a voter at once afterwards.
   */
  | { readonly kind: "promote-to-even"; readonly id: MemberId }
  | { readonly kind: "remove"; readonly id: MemberId };

/** What has been proven about the data. */
export interface Evidence {
  /** HashKV of all voters is equal at one revision. */
  readonly hashesEqual: boolean;
  /** Alarms raised, e.g. `NOSPACE`; empty when all is well. */
  readonly alarms: readonly string[];
}

export interface Quorum {
  readonly voters: number;
  readonly needed: number;
  readonly healthy: number;
  /** Voters that may fail before the cluster stands still; negative when it does. */
  readonly spare: number;
  /** Sites that can go on alone. */
  readonly survivors: readonly Site[];
}

export interface Judgement {
  /** Why the step must not be made now; empty when it may be made. */
  readonly refusals: readonly string[];
  readonly before: Quorum;
  readonly after: Quorum;
}

const sites: readonly Site[] = ["source", "destination"];

export function quorumOf(members: readonly PlannedMember[]): Quorum {
  const voters = members.filter(({ learner }) => !learner);
  const needed = Math.floor(voters.length / 2) + 1;
  const healthy = voters.filter((voter) => voter.healthy);
  return {
    voters: voters.length,
    needed,
    healthy: healthy.length,
    spare: healthy.length - needed,
    survivors: sites.filter((site) => healthy.filter((voter) => voter.site === site).length >= needed),
  };
}

/** The members as they are after the step. */
export function afterStep(members: readonly PlannedMember[], step: Step): readonly PlannedMember[] {
  if (step.kind === "add-learner") return members;
  if (step.kind === "remove") return members.filter(({ id }) => id !== step.id);
  return members.map((member) => (member.id === step.id ? { ...member, learner: false } : member));
}

/**
 * Whether a step may be made on these members, read linearizably just before. A step that has been made already is
 * allowed as long as its member is where the step would have put it: doing it again changes nothing.
 */
export function judgeStep(members: readonly PlannedMember[], step: Step, evidence: Evidence): Judgement {
  const before = quorumOf(members);
  const after = quorumOf(afterStep(members, step));
  const refusals = isDone(members, step)
    ? []
    : [
        ...(before.spare < 0 ? [`${before.healthy} of ${before.needed} needed voters are healthy`] : []),
        ...refusalsOf(members, step, evidence),
        ...quorumRefusals(members, step, after),
      ];
  return { refusals, before, after };
}

function isDone(members: readonly PlannedMember[], step: Step): boolean {
  if (step.kind === "add-learner") return false;
  const member = members.find(({ id }) => id === step.id);
  return step.kind === "remove" ? member === undefined : member !== undefined && !member.learner;
}

function refusalsOf(members: readonly PlannedMember[], step: Step, evidence: Evidence): string[] {
  if (step.kind === "add-learner") return addRefusals(members, evidence);
  if (step.kind === "remove") return removeRefusals(members, step.id, evidence);
  return promoteRefusals(members, step.id, evidence);
}

/** etcd's own rules (v3.6, `mayAddMember`): one learner, every voter connected. */
function addRefusals(members: readonly PlannedMember[], evidence: Evidence): string[] {
  const learner = members.find((member) => member.learner);
  return [
    ...(learner ? [`${learner.id} is a learner, and one is allowed`] : []),
    ...unhealthyVoters(members),
    ...alarmRefusals(evidence),
  ];
}

/** etcd promotes whatever has 0.9 of the log, healthy or not (`mayPromoteMember`). */
function promoteRefusals(members: readonly PlannedMember[], id: MemberId, evidence: Evidence): string[] {
  const member = members.find((candidate) => candidate.id === id);
  if (member === undefined) return [`${id} is not a member`];
  return [
    ...(member.started ? [] : [`${id} has not started`]),
    ...(member.healthy ? [] : [`${id} is not healthy`]),
    ...(member.inSync ? [] : [`${id} is not in sync`]),
    ...unhealthyVoters(members),
    ...alarmRefusals(evidence),
  ];
}

/** A learner's vote is not missed, and a destination's member is removed by an undo, which alarms must not prevent. */
function removeRefusals(members: readonly PlannedMember[], id: MemberId, evidence: Evidence): string[] {
  const member = members.find((candidate) => candidate.id === id);
  if (member === undefined || member.learner) return [];
  const leads = member.leader ? [`${id} leads: move the leader first`] : [];
  if (member.site === "destination") return leads;
  return [
    ...leads,
    ...(evidence.hashesEqual ? [] : ["it is not proven that all voters hold the same data"]),
    ...alarmRefusals(evidence),
  ];
}

/** Adding or removing a learner changes no quorum. */
function quorumRefusals(members: readonly PlannedMember[], step: Step, after: Quorum): string[] {
  if (step.kind === "add-learner") return [];
  const member = members.find(({ id }) => id === step.id);
  if (step.kind === "remove" && member?.learner) return [];
  // Taking out a voter that is down helps, and must be possible when the source is lost half-way. But not below three:
  // if the voter came back and another failed before the call took effect, two would be left and one of them down.
  const isRepair = step.kind === "remove" && member?.healthy === false && after.voters >= 3;
  const spareNeeded = isRepair ? 0 : 1;
  const text = `${after.healthy} of ${after.voters} voters would be healthy, with ${after.needed} needed`;
  return [
    ...(after.spare < spareNeeded ? [text] : []),
    ...(after.survivors.length > 0 || isBriefEven(members, step) ? [] : ["neither site could go on alone"]),
  ];
}

/** The even step: the sites' halves are whole and equal, and one voter more makes the other site the survivor. */
function isBriefEven(members: readonly PlannedMember[], step: Step): boolean {
  if (step.kind !== "promote-to-even") return false;
  const voters = afterStep(members, step).filter(({ learner }) => !learner);
  const [source, destination] = sites.map((site) => voters.filter((voter) => voter.site === site).length);
  return source === destination;
}

function unhealthyVoters(members: readonly PlannedMember[]): string[] {
  return members
    .filter(({ learner, healthy }) => !learner && !healthy)
    .map(({ id }) => `the voter ${id} is not healthy`);
}

function alarmRefusals({ alarms }: Evidence): string[] {
  return alarms.length === 0 ? [] : [`alarms are raised: ${alarms.join(", ")}`];
}
