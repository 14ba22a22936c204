import { listMembers } from "../../etcd/membership/converge.ts";
import { RefusedError } from "../../etcd/membership/errors.ts";
import { proveEqualHashes } from "../../etcd/membership/hashes.ts";
import { moveLeader, promote, removeMember } from "../../etcd/membership/operations.ts";
import { awaitInSync } from "../../etcd/membership/sync.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { proveSameData } from "./api-servers.ts";
import { allEtcds, forEachEtcd, refOf } from "./etcd.ts";
import type { StretchedEtcd } from "./etcd.ts";
import { apiOf, step } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities, HashProof, StretchedSubject } from "./types.ts";

type Steps = Pick<ControlPlaneActivities, "commitQuorum" | "removeSourcePeers">;

/** From the first removal of a source member on there is no way back. Works also while the source is cut off. */
export function createCommitActivities(sites: ControlPlaneSites): Steps {
  return {
    commitQuorum: step(sites, "CommitQuorum", async (session, input) => {
      // All that can be refused is refused before the first change.
      await allEtcds(session, input, prove);
      await allEtcds(session, input, toDestination);
      const evenMs: Record<string, number> = {};
      const proofs = await forEachEtcd(session, input, async (etcd) => {
        const replaced = await replaceFirst(etcd, input, async () => await hasCommitted(session, input));
        evenMs[etcd.name] = replaced.evenMs;
        return replaced.proof;
      });
      return { proofs, evenMs, committedAt: Date.now() };
    }),

    removeSourcePeers: step(sites, "RemoveSourcePeers", async (session, input) => {
      const api = await apiOf(session, "destination");
      const voters = await allEtcds(session, input, async (etcd) => {
        for (const address of etcd.layout.source.toReversed()) {
          const member = await etcd.memberAt(address);
          if (member === undefined) continue;
          await toDestination(etcd);
          await proveWhereAllAnswer(etcd);
          await removeMember(etcd.cluster, member.id, etcd.allowed({ kind: "remove", id: member.id }, true));
          await proveSameData(api, api);
        }
        const { members } = await listMembers(etcd.cluster, session.signal);
        return members.map((member) => refOf(etcd.name, member));
      });
      return { voters: voters.flat() };
    }),
  };
}

/** @throws ApplicationFailure `NotVerified` when two voters hold different data. */
export async function prove(etcd: StretchedEtcd): Promise<HashProof> {
  try {
    const proof = await proveEqualHashes(etcd.cluster, etcd.wait);
    return {
      etcd: etcd.name,
      revision: String(proof.revision),
      compactRevision: String(proof.compactRevision),
      hash: proof.hash,
      members: proof.members.length,
    };
  } catch (error) {
    if (!(error instanceof RefusedError) || error.refusal !== "diverged") throw error;
    throw failure("NotVerified", {
      message: `the members of ${etcd.cluster.name} hold different data`,
      found: error.message,
      advice: "find the member that is wrong (etcdctl endpoint hashkv), replace it, and start the move again",
    });
  }
}

/**
 * A source that is cut off must not hold up what is left of the move: all members have been proven equal before the first
 * was removed, and a member that nobody reaches has heard nothing since that the others have not.
 */
async function proveWhereAllAnswer(etcd: StretchedEtcd): Promise<void> {
  const { members } = await etcd.survey();
  if (members.every(({ healthy }) => healthy)) await prove(etcd);
}

/** Makes a voter of the destination the leader, unless one is. */
async function toDestination(etcd: StretchedEtcd): Promise<void> {
  const { members, leader } = await etcd.survey();
  const voters = members.filter(
    ({ site, learner, healthy }) => site === "destination" && !learner && healthy,
  );
  if (voters.some(({ id }) => id === leader)) return;
  const [heir] = voters;
  if (heir === undefined) throw new Error(`${etcd.cluster.name} has no healthy voter at the destination`);
  await moveLeader(etcd.cluster, heir.id, etcd.wait);
}

/**
 * Promotes the learner, proves it equal, and removes the source's last member by number (a StatefulSet gives up its
 * highest first). Between the two calls neither seed could go on alone, so nothing else is done there.
 */
async function replaceFirst(
  etcd: StretchedEtcd,
  limit: { readonly maxLagRevisions: number },
  hasCommittedAny: () => Promise<boolean>,
): Promise<{ proof: HashProof; evenMs: number }> {
  const learner = etcd.layout.destination.at(-1)!;
  const leaver = etcd.layout.source.at(-1)!;
  const joining = await etcd.memberAt(learner);
  if (joining === undefined) throw new Error(`${etcd.cluster.name} has no member at ${learner.peerUrl}`);
  await awaitInSync(etcd.cluster, joining.id, limit, etcd.wait);
  const leaving = await etcd.memberAt(leaver);
  if (leaving === undefined) return { proof: await prove(etcd), evenMs: 0 };
  const from = performance.now();
  await promote(etcd.cluster, joining.id, etcd.allowed({ kind: "promote-to-even", id: joining.id }));
  const proof = await proveOrStepBack(etcd, joining.id, hasCommittedAny);
  await removeMember(etcd.cluster, leaving.id, etcd.allowed({ kind: "remove", id: leaving.id }, true));
  return { proof, evenMs: Math.round(performance.now() - from) };
}

/** A new voter whose data differs leaves again, so that the sites are uneven as before. */
async function proveOrStepBack(
  etcd: StretchedEtcd,
  id: string,
  hasCommittedAny: () => Promise<boolean>,
): Promise<HashProof> {
  try {
    return await prove(etcd);
  } catch (error) {
    await removeMember(etcd.cluster, id, etcd.wait);
    if (!(await hasCommittedAny())) throw error;
    // Another etcd has lost its first source member already: this must be tried again, not undone.
    throw new Error(`${etcd.cluster.name}: ${(error as Error).message}`, { cause: error });
  }
}

async function hasCommitted(session: Session, input: StretchedSubject): Promise<boolean> {
  const gone = await forEachEtcd(session, input, async ({ layout, memberAt }) => {
    return (await memberAt(layout.source.at(-1)!)) === undefined;
  });
  return gone.includes(true);
}
