import { listMembers } from "../../etcd/membership/converge.ts";
import { RefusedError } from "../../etcd/membership/errors.ts";
import { moveLeader, removeMember } from "../../etcd/membership/operations.ts";
import type { MemberId } from "../../etcd/membership/types.ts";
import type { StretchedEtcd } from "./etcd.ts";

/** Makes a voter of the destination the leader, unless one is. */
export async function leadAtDestination(etcd: StretchedEtcd, wait = etcd.wait): Promise<void> {
  const heir = await heirOf(etcd);
  if (heir !== undefined) await moveLeader(etcd.cluster, heir, wait);
}

/** Makes a voter of the source the leader. */
export async function leadAtSource(etcd: StretchedEtcd): Promise<void> {
  const { members } = await etcd.survey();
  const heir = members.find(({ site, learner, healthy }) => site === "source" && !learner && healthy);
  if (heir === undefined) throw new Error(`${etcd.cluster.name} has no healthy voter at the source`);
  await moveLeader(etcd.cluster, heir.id, etcd.wait);
}

/** The voter that is to lead; undefined when one of the destination does. */
export async function heirOf(etcd: StretchedEtcd): Promise<MemberId | undefined> {
  if (await leadsAtDestination(etcd)) return undefined;
  const { members, leader } = await etcd.survey();
  const voters = members.filter(
    ({ site, learner, healthy }) => site === "destination" && !learner && healthy,
  );
  if (voters.some(({ id }) => id === leader)) return undefined;
  const [heir] = voters;
  if (heir === undefined) throw new Error(`${etcd.cluster.name} has no healthy voter at the destination`);
  return heir.id;
}

/** Does not wait for members that are silent, as a survey does. */
async function leadsAtDestination({ cluster, layout, wait }: StretchedEtcd): Promise<boolean> {
  const [{ members }, { status }] = await Promise.all([
    listMembers(cluster, wait.signal),
    cluster.leader(wait.signal),
  ]);
  const urls = new Set(layout.destination.map(({ peerUrl }) => peerUrl));
  return members.some(({ id, peerUrls }) => id === status.id && peerUrls.some((url) => urls.has(url)));
}

/** Removes a member. Any voter may be elected at any moment: when it is found to lead, `handOver` lets another one lead. */
export async function removeFollower(
  { cluster }: StretchedEtcd,
  id: MemberId,
  allowed: Parameters<typeof removeMember>[2],
  handOver: () => Promise<void>,
): Promise<void> {
  for (;;) {
    try {
      return await removeMember(cluster, id, allowed);
    } catch (error) {
      if (!(error instanceof RefusedError) || error.refusal !== "is-leader") throw error;
      await handOver();
    }
  }
}
