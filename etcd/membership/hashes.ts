import type { EtcdCluster, Located } from "./cluster.ts";
import { converge, listMembers } from "./converge.ts";
import { MembershipError, RefusedError } from "./errors.ts";
import type { MemberHash, MemberId, Wait } from "./types.ts";

/** What the voters say about their data at one revision. */
export type HashComparison =
  /** All voters answered alike. */
  | { readonly outcome: "equal"; readonly proof: HashProof }
  /** Two voters with the same compaction revision hold different data. */
  | { readonly outcome: "different"; readonly hashes: readonly MemberHash[] }
  /** Not known: ask again, `newer` with a newer revision. */
  | { readonly outcome: "incomparable"; readonly reason: string; readonly newer: boolean };

/**
 * Whether voters that cannot be compared stand in the way of a proof, or are left out of it: those that do not answer, and
 * those that a cut keeps from their leader, which answer but hear of nothing new.
 */
export type Voters = "all" | "in touch";

/** Proof that voters hold the same data. */
export interface HashProof {
  readonly revision: bigint;
  readonly compactRevision: bigint;
  readonly hash: number;
  readonly members: readonly MemberId[];
}

/**
 * Compares the hashes of all voters at one revision. Learners are left out: etcd lets them answer no HashKV. Members
 * that compacted at different revisions are incomparable, since a hash covers what compaction has left.
 */
export async function compareHashes(
  cluster: EtcdCluster,
  revision: bigint,
  signal?: AbortSignal,
  of: Voters = "all",
): Promise<HashComparison> {
  const { members } = await listMembers(cluster, signal);
  const voters = new Set(members.filter(({ learner }) => !learner).map(({ id }) => id));
  const { answered } = await cluster.locate(signal);
  const leaders = new Set(answered.flatMap(({ status: { id, leader } }) => (leader === id ? [id] : [])));
  const asked = unique(answered).filter(
    ({ status: { id, leader } }) =>
      voters.has(id) && (of === "all" || (leader !== undefined && leaders.has(leader))),
  );
  const missing = [...voters].filter((id) => !asked.some(({ status }) => status.id === id));
  if (of === "all" && missing.length > 0) return incomparable(`${missing.join(", ")} did not answer`);
  const answers = await Promise.allSettled(
    asked.map(async ({ member }) => await member.hashKv(revision, { signal })),
  );
  signal?.throwIfAborted();
  const failures = answers.flatMap((answer) =>
    answer.status === "rejected" ? [answer.reason as Error] : [],
  );
  const [failure] = failures;
  if (failure) return incomparable(failure.message, failures.some(isCompacted));
  return judgeHashes(
    revision,
    answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : [])),
  );
}

function isCompacted(error: unknown): boolean {
  return error instanceof MembershipError && error.failure === "compacted";
}

/** The rule of comparison alone. `hashes` are of all voters. */
export function judgeHashes(revision: bigint, hashes: readonly MemberHash[]): HashComparison {
  const [first] = hashes;
  if (first === undefined) return incomparable("there is no voter");
  const known = new Map<bigint, number>();
  for (const { compactRevision, hash } of hashes) {
    if ((known.get(compactRevision) ?? hash) !== hash) return { outcome: "different", hashes };
    known.set(compactRevision, hash);
  }
  if (known.size > 1) return incomparable(`compacted at ${[...known.keys()].join(", ")}`);
  const { hash, compactRevision } = first;
  const members = hashes.map(({ id }) => id);
  return { outcome: "equal", proof: { revision, compactRevision, hash, members } };
}

/**
 * Compares until the hashes are comparable, always at a revision that the leader has just had.
 * @throws RefusedError `diverged`: nothing may be removed, and somebody must look.
 */
export async function proveEqualHashes(
  cluster: EtcdCluster,
  wait: Wait,
  of: Voters = "all",
): Promise<HashProof> {
  let revision: bigint | undefined;
  return await converge<HashComparison, HashProof>(
    cluster,
    {
      name: "prove that all voters hold the same data",
      async look(signal) {
        revision ??= (await cluster.leader(signal)).status.revision;
        return await compareHashes(cluster, revision, signal, of);
      },
      isDone(comparison) {
        if (comparison.outcome === "equal") return comparison.proof;
        if (comparison.outcome === "incomparable") return undefined;
        const list = comparison.hashes.map(({ id, hash }) => `${id} ${hash}`).join(", ");
        throw new RefusedError("diverged", `${cluster.name} at revision ${revision}: ${list}`);
      },
      async act(comparison) {
        if (comparison.outcome !== "incomparable") return;
        if (comparison.newer) revision = undefined;
        throw new MembershipError(cluster.name, "HashKV", "ambiguous", comparison.reason);
      },
    },
    wait,
  );
}

/** Several endpoints may lead to one member. */
function unique(located: readonly Located[]): Located[] {
  return [...new Map(located.map((each) => [each.status.id, each])).values()];
}

function incomparable(reason: string, newer = false): HashComparison {
  return { outcome: "incomparable", reason, newer };
}
