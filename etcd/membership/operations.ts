import type { EtcdCluster, Located } from "./cluster.ts";
import { converge, listMembers } from "./converge.ts";
import { MembershipError, RefusedError } from "./errors.ts";
import type { ChangeOptions, Member, MemberId, MemberList } from "./types.ts";

/**
 * Changes of a cluster's membership, one at a time. Each may be repeated at any time, by the same or by another caller,
 * after any error: it looks at the member list first and returns only after a look that shows the change.
 * All throw GaveUpError at their deadline, and RefusedError when the cluster cannot be brought to it.
 */

/**
 * Adds a learner. It is recognised by its peer URL, since its name is empty until it starts and each attempt would
 * get another id.
 * @returns the id, of an earlier attempt where that was carried out.
 * @throws RefusedError `foreign-learner`, `is-voter`.
 */
export async function addLearner(
  cluster: EtcdCluster,
  peerUrl: string,
  options: ChangeOptions,
): Promise<MemberId> {
  return await change(cluster, options, {
    name: `add the learner ${peerUrl}`,
    isDone({ members }) {
      const found = members.find(({ peerUrls }) => peerUrls.includes(peerUrl));
      if (found?.learner) return found.id;
      if (found) throw new RefusedError("is-voter", `${peerUrl} belongs to the voter ${describe(found)}`);
      const other = members.find(({ learner }) => learner);
      if (other === undefined) return undefined;
      throw new RefusedError("foreign-learner", `${cluster.name} has the learner ${describe(other)} already`);
    },
    act: async ({ member }, signal) => await member.memberAdd([peerUrl], true, { signal }),
  });
}

/**
 * Makes a learner a voter. Waits while it is not in sync by etcd's own rule; ask `awaitInSync` first for a stricter one.
 * @throws RefusedError `unknown-member`.
 */
export async function promote(cluster: EtcdCluster, id: MemberId, options: ChangeOptions): Promise<void> {
  await change(cluster, options, {
    name: `promote ${id}`,
    isDone: (list) => (requireMember(cluster, list, id).learner ? undefined : true),
    act: async ({ member }, signal) => await member.memberPromote(id, { signal }),
  });
}

/**
 * Removes a member by its id; done when the id is absent. The removed process ends by itself.
 * @throws RefusedError `is-leader`: a cluster without its leader stands still until it has elected another.
 */
export async function removeMember(
  cluster: EtcdCluster,
  id: MemberId,
  options: ChangeOptions,
): Promise<void> {
  await change(cluster, options, {
    name: `remove ${id}`,
    isDone: ({ members }) => (members.some((member) => member.id === id) ? undefined : true),
    async act({ member, status }, signal) {
      if (status.id === id) throw new RefusedError("is-leader", `${cluster.name}: ${id} leads`);
      await member.memberRemove(id, { signal });
    },
  });
}

/**
 * Gives a voter other peer URLs, which its peers use from then on without a restart.
 * @throws RefusedError `unknown-member`, `peer-url-taken`, and `is-learner`: before v3.6.12 this call makes the member
 *   list show a learner as a voter, which it is not (etcd issue 21694). Remove the learner and add it anew.
 */
export async function updatePeerUrls(
  cluster: EtcdCluster,
  id: MemberId,
  peerUrls: readonly string[],
  options: ChangeOptions,
): Promise<void> {
  await change(cluster, options, {
    name: `change the peer URLs of ${id} to ${peerUrls.join(", ")}`,
    isDone(list) {
      const member = requireMember(cluster, list, id);
      if (isSameSet(member.peerUrls, peerUrls)) return true;
      if (member.learner) throw new RefusedError("is-learner", `${describe(member)} is a learner`);
      const taken = list.members.find((other) => other.id !== id && other.peerUrls.some(isIn(peerUrls)));
      if (taken)
        throw new RefusedError("peer-url-taken", `${peerUrls.join(", ")} belongs to ${describe(taken)}`);
      return undefined;
    },
    act: async ({ member }, signal) => await member.memberUpdate(id, peerUrls, { signal }),
  });
}

export interface LeaderMoved {
  /** The leader before, which is the target itself when nothing had to be done. */
  readonly from: MemberId;
  readonly to: MemberId;
}

/**
 * Makes a voter the leader; done when it says so itself.
 * @throws RefusedError `unknown-member`, `is-learner`.
 */
export async function moveLeader(
  cluster: EtcdCluster,
  target: MemberId,
  options: ChangeOptions,
): Promise<LeaderMoved> {
  let from: MemberId | undefined;
  return await converge<Located, LeaderMoved>(
    cluster,
    {
      name: `move the leader to ${target}`,
      async look(signal) {
        const leader = await cluster.leader(signal);
        from ??= leader.status.id;
        return leader;
      },
      isDone: ({ status }) => (status.id === target ? { from: from ?? target, to: target } : undefined),
      async act({ member }, signal) {
        const found = requireMember(cluster, await listMembers(cluster, signal), target);
        if (found.learner) throw new RefusedError("is-learner", `${describe(found)} cannot lead`);
        await options.permit?.(signal);
        await member.moveLeader(target, { signal });
      },
    },
    options,
  );
}

interface Change<Result> {
  readonly name: string;
  readonly isDone: (list: MemberList) => Result | undefined;
  /** Is given the leader: its connections are what etcd's own check should go by, and it is never the one removed. */
  readonly act: (leader: Located, signal: AbortSignal) => Promise<unknown>;
}

async function change<Result>(
  cluster: EtcdCluster,
  options: ChangeOptions,
  { name, isDone, act }: Change<Result>,
): Promise<Result> {
  const look = async (signal: AbortSignal) => await listMembers(cluster, signal);
  return await converge(
    cluster,
    {
      name,
      look,
      isDone,
      async act({ clusterId }, signal) {
        const leader = await cluster.leader(signal);
        if (leader.status.clusterId !== clusterId) {
          const details = `leads cluster ${leader.status.clusterId}, the list is of ${clusterId}`;
          throw new MembershipError(leader.member.endpoint, "Status", "foreign-cluster", details);
        }
        await options.permit?.(signal);
        return await act(leader, signal);
      },
    },
    options,
  );
}

function requireMember(cluster: EtcdCluster, { members }: MemberList, id: MemberId): Member {
  const member = members.find((candidate) => candidate.id === id);
  if (member) return member;
  throw new RefusedError("unknown-member", `${cluster.name} has no member ${id}`);
}

function describe({ id, name, peerUrls }: Member): string {
  return `${id} (${name || "not started"}, ${peerUrls.join(", ")})`;
}

function isIn(list: readonly string[]) {
  return (value: string) => list.includes(value);
}

function isSameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every(isIn(b));
}
