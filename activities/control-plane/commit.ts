import { activityInfo } from "@temporalio/activity";
import { listMembers } from "../../etcd/membership/converge.ts";
import { RefusedError } from "../../etcd/membership/errors.ts";
import { proveEqualHashes } from "../../etcd/membership/hashes.ts";
import type { Voters } from "../../etcd/membership/hashes.ts";
import { moveLeader, promote } from "../../etcd/membership/operations.ts";
import { awaitInSync, listAlarms } from "../../etcd/membership/sync.ts";
import type { Wait } from "../../etcd/membership/types.ts";
import type { MemberAddress } from "../../hosting/types.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { together } from "../../kubernetes/wait.ts";
import { failure, isConclusive, isFailure } from "../../workflows/engine/failures.ts";
import { classify } from "../classify.ts";
import { proveSameData } from "./api-servers.ts";
import { allEtcds, forEachEtcd, refOf, withAllEtcds } from "./etcd.ts";
import type { StretchedEtcd } from "./etcd.ts";
import { releaseQuickly, releaseWrites, withWritesHeld } from "./hold.ts";
import { startMember } from "./join.ts";
import { heirOf, leadAtDestination, leadAtSource, removeFollower } from "./leader.ts";
import { apiOf, beginning, step } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities, HashProof, StretchedSubject } from "./types.ts";

type Steps = Pick<ControlPlaneActivities, "commitQuorum" | "removeSourcePeers">;

/** With an even number of voters neither seed can go on alone, so a proof is not waited for longer than this. */
const EVEN_DEADLINE_MS = 30_000;
/** When nothing has been removed for so long an attempt ends, so that the move can be aborted before the next. */
const PATIENCE_MS = 60_000;
/** A learner that promotes itself has so long to get in step, while users are served. */
const LEARNER_PATIENCE_MS = 30 * 60_000;
/** A member on a node that is dead does not stop. */
const STOP_MS = 60_000;
const shortly = ({ wait }: StretchedEtcd) => ({ ...wait, deadlineMs: PATIENCE_MS });

/** From the first removal of a source member on there is no way back. Works also while the source is cut off. */
export function createCommitActivities(sites: ControlPlaneSites): Steps {
  return {
    commitQuorum: beginning(sites, "CommitQuorum", async (session, input) => {
      return await repeatedOnceCommitted(session, input, async () => {
        await session.hosting.requireClaim(session.signal);
        const destination = await apiOf(session, "destination");
        // Of an attempt that died before it could.
        await releaseQuickly(destination);
        // It is to serve alone from here on, by its name.
        if (!(await hasCommitted(session, input))) await proveSameData(session.api, destination);
        // All that can be refused is refused before the first change.
        await allEtcds(session, input, async (etcd) => {
          await refuseAlarms(etcd, session.signal);
          await prove(etcd, shortly(etcd), (await isReplaced(etcd)) ? "in touch" : "all");
        });
        const heldMs = await handOverLeaders(session, input);
        const replaced = await forEachEtcd(session, input, async (etcd) => {
          return await replaceFirst(session, etcd, input);
        });
        return {
          proofs: replaced.map(({ proof }) => proof),
          evenMs: Object.fromEntries(replaced.map(({ proof, evenMs }) => [proof.etcd, evenMs])),
          ...(heldMs !== undefined && { writesHeldMs: heldMs }),
          committedAt: Date.now(),
        };
      });
    }),

    removeSourcePeers: step(sites, "RemoveSourcePeers", async (session, input) => {
      const api = await apiOf(session, "destination");
      await releaseWrites(api, session.signal);
      const voters = await allEtcds(session, input, async (etcd) => {
        for (const [ordinal, address] of [...etcd.layout.source.entries()].toReversed()) {
          if ((await etcd.memberAt(address)) !== undefined) {
            await leadAtDestination(etcd);
            await prove(etcd, etcd.wait, "in touch");
            await removeAt(etcd, address);
            await proveSameData(api, api);
          }
          await keepOut(session, etcd, ordinal);
        }
        const { members } = await listMembers(etcd.cluster, session.signal);
        return members.map((member) => refOf(etcd.name, member));
      });
      return { voters: voters.flat().toSorted((a, b) => (a.member < b.member ? -1 : 1)) };
    }),
  };
}

/**
 * What no repetition can mend would end the move here, and undo it. Once an etcd has lost its first source member, or
 * may have, there is no way back: it is repeated until somebody has mended it. Before, an attempt ends after a while.
 * @throws the error of `run`, one that lets it be repeated, or ApplicationFailure `NotCommitted`
 */
async function repeatedOnceCommitted<T>(
  session: Session,
  input: StretchedSubject,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    session.signal.throwIfAborted();
    const message = error instanceof Error ? error.message : String(error);
    const goOn = new Error(message, { cause: error });
    if (await mayHaveCommitted(session, input)) throw goOn;
    const known = classify(error);
    const isGivenUp = Date.now() - activityInfo().scheduledTimestampMs >= PATIENCE_MS;
    if (isFailure(known, "LockLost", "Superseded") || !(isGivenUp || isConclusive(known))) throw error;
    // It must not stay, or the seeds would be even for long; unless it is about to be started, which takes its time.
    const left = await forEachEtcd(session, input, async (etcd) => await stepBack(session, etcd));
    if (left.includes(false) || (await mayHaveCommitted(session, input))) throw goOn;
    throw isConclusive(known) ? error : failure("NotCommitted", message);
  }
}

/**
 * No etcd with an alarm may lose a member, and that must be found before another has lost its own.
 * @throws ApplicationFailure `Refused`
 */
async function refuseAlarms({ cluster }: StretchedEtcd, signal: AbortSignal): Promise<void> {
  const alarms = await listAlarms(cluster, signal);
  if (alarms.length === 0) return;
  throw failure("Refused", {
    message: `${cluster.name} has raised an alarm`,
    found: alarms.map(({ member, alarm }) => `${alarm} of ${member}`).join(", "),
    advice: "mend what it tells of, disarm it (etcdctl alarm disarm), and start the move again",
  });
}

/**
 * @param of A source that is cut off must not hold up what is left of the move: before the first member is removed all have
 *   been proven equal, and one that nobody reaches has heard nothing since that the others have not.
 * @throws ApplicationFailure `NotVerified` when two voters hold different data.
 */
export async function prove(
  etcd: StretchedEtcd,
  wait: Wait = etcd.wait,
  of: Voters = "all",
): Promise<HashProof> {
  try {
    const proof = await proveEqualHashes(etcd.cluster, wait, of);
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

/** Removes the source's member at an address, unless it is gone; all voters have been proven equal. */
export async function removeAt(
  etcd: StretchedEtcd,
  address: MemberAddress,
  deadlineMs = etcd.wait.deadlineMs,
): Promise<void> {
  const member = await etcd.memberAt(address);
  if (member === undefined) return;
  const { id } = member;
  const allowed = { ...etcd.allowed({ kind: "remove", id }, true), deadlineMs };
  await removeFollower(etcd, id, allowed, async () => await leadAtDestination(etcd));
}

/**
 * Stops the source's members from `ordinal` on, which have been removed, where something beside them would add them
 * again, and removes what it has added meanwhile. A source that is cut off is looked at when it is cleared.
 */
async function keepOut({ hosting, signal }: Session, etcd: StretchedEtcd, ordinal: number): Promise<void> {
  if (!hosting.promotesByItself || !(await hosting.isReachable("source", signal))) return;
  await hosting.stopMembers("source", etcd.name, ordinal, signal);
  await removeAt(etcd, etcd.layout.source[ordinal]!);
}

/**
 * Makes voters of the destination the leaders of all etcds while no write comes: an etcd whose leader hands over drops those
 * that other members forward to it, and does not tell (docs/adr/0009).
 * @returns for how long API servers were told to let writes wait, in ms
 */
async function handOverLeaders(session: Session, input: StretchedSubject): Promise<number | undefined> {
  return await withAllEtcds(session, input, async (etcds) => {
    const heirs = await together(etcds, async (etcd) => ({ etcd, heir: await heirOf(etcd) }));
    const handOver = async () => {
      await together(heirs, async ({ etcd, heir }) => {
        if (heir !== undefined) await moveLeader(etcd.cluster, heir, shortly(etcd));
      });
    };
    if (heirs.every(({ heir }) => heir === undefined)) return undefined;
    const stores = etcds.map(({ cluster }) => cluster);
    const api = await apiOf(session, "destination");
    return await withWritesHeld(api, stores, session.signal, handOver);
  });
}

/**
 * Promotes the learner, proves it equal, and removes the source's last member by number (a StatefulSet gives up its
 * highest first). Between the two calls neither seed could go on alone, so nothing else is done there.
 */
async function replaceFirst(
  session: Session,
  etcd: StretchedEtcd,
  limit: { readonly maxLagRevisions: number },
): Promise<{ proof: HashProof; evenMs: number }> {
  const leaver = etcd.layout.source.at(-1)!;
  const joining = await lastToJoin(session, etcd);
  // One that has been a learner for long is in step.
  const soon = session.hosting.promotesByItself ? etcd.wait : shortly(etcd);
  await awaitInSync(etcd.cluster, joining.id, limit, soon);
  if (await isReplaced(etcd)) {
    await keepOut(session, etcd, etcd.layout.source.length - 1);
    return { proof: await prove(etcd, etcd.wait, "in touch"), evenMs: 0 };
  }
  await leadAtDestination(etcd, shortly(etcd));
  const isLearner = (await etcd.memberAt(etcd.layout.destination.at(-1)!))?.learner === true;
  const from = isLearner ? performance.now() : joining.asLearner;
  const allowed = etcd.allowed({ kind: "promote-to-even", id: joining.id });
  await promote(etcd.cluster, joining.id, { ...allowed, deadlineMs: PATIENCE_MS });
  try {
    const evenWait = { ...etcd.wait, deadlineMs: EVEN_DEADLINE_MS };
    const proof = await prove(etcd, evenWait);
    // Somebody else may have been elected since.
    await leadAtDestination(etcd, evenWait);
    await removeAt(etcd, leaver, EVEN_DEADLINE_MS);
    const evenMs = Math.round(performance.now() - from);
    await keepOut(session, etcd, etcd.layout.source.length - 1);
    return { proof, evenMs };
  } catch (error) {
    if (!(await isReplaced(etcd))) await stepBack(session, etcd);
    throw error;
  }
}

/**
 * The member that is to make the voters even: a learner since JoinDestinationPeers, or started only now where it would
 * be promoted without being asked. What forbids a promotion forbids its start.
 * @returns also when it was last known to be no voter (`performance.now()`).
 */
async function lastToJoin(
  session: Session,
  etcd: StretchedEtcd,
): Promise<{ readonly id: string; readonly asLearner: number }> {
  const { destination } = etcd.layout;
  const address = destination.at(-1)!;
  const last = destination.length - 1;
  const begun = performance.now();
  const member = await etcd.memberAt(address);
  if (member !== undefined && !session.hosting.promotesByItself) {
    // An attempt that died may have added it and not started it.
    if (member.learner) await startMember(session, etcd, address, last);
    return { id: member.id, asLearner: begun };
  }
  // What a step back has removed does not start again with its data.
  await session.hosting.stopMembers("destination", etcd.name, last, forStop(session.signal));
  const id = await startMember(session, etcd, address, last);
  const isLearner = (await etcd.memberAt(address))?.learner === true;
  return { id, asLearner: isLearner ? performance.now() : begun };
}

/**
 * The last member to join leaves again, so that the seeds are uneven as before: better so, whoever is down by now. A
 * learner may stay: one that would promote itself does, too, for a while, if it has started and the destination serves.
 * @returns false when it stays and is about to become a voter.
 */
async function stepBack(session: Session, etcd: StretchedEtcd): Promise<boolean> {
  const { hosting, signal } = session;
  const last = etcd.layout.destination.length - 1;
  const find = async () => await etcd.memberAt(etcd.layout.destination[last]!);
  let member = await find();
  if (member === undefined || (member.learner && !hosting.promotesByItself)) return true;
  if (hosting.promotesByItself && (await hosting.isReachable("destination", signal))) {
    if (member.learner && member.name !== "" && (await mayCatchUp(session))) return false;
    // First, or it would come back, and may have done so meanwhile.
    await stopIfPossible(session, etcd.name, last);
    member = await find();
    if (member === undefined) return true;
  }
  await removeFollower(etcd, member.id, etcd.wait, async () => await leadAtSource(etcd));
  return true;
}

/** Not while nobody is served: the destination's members have no quorum of their own, and the source's may be cut off. */
async function mayCatchUp(session: Session): Promise<boolean> {
  const { api, signal } = session;
  if (Date.now() - activityInfo().scheduledTimestampMs > LEARNER_PATIENCE_MS) return false;
  try {
    await proveSameData(api, await apiOf(session, "destination"));
    return true;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/** Stops the destination's last member. One that does not stop in time is removed from etcd all the same. */
async function stopIfPossible({ hosting, signal }: Session, etcd: string, last: number): Promise<void> {
  const limit = forStop(signal);
  try {
    await hosting.stopMembers("destination", etcd, last, limit);
  } catch (error) {
    signal.throwIfAborted();
    if (!limit.aborted) throw error;
  }
}

function forStop(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(STOP_MS)]);
}

/** Whether an etcd has lost its first source member. */
async function hasCommitted(session: Session, input: StretchedSubject): Promise<boolean> {
  return (await forEachEtcd(session, input, isReplaced)).includes(true);
}

/** The same; true where that cannot be told. */
async function mayHaveCommitted(session: Session, input: StretchedSubject): Promise<boolean> {
  return await hasCommitted(session, input).catch(() => true);
}

async function isReplaced({ layout, memberAt }: StretchedEtcd): Promise<boolean> {
  const last = await memberAt(layout.source.at(-1)!);
  // A learner is one that came back: the source has none before.
  return last === undefined || last.learner;
}
