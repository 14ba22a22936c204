import { log } from "@temporalio/activity";
import { copySnapshot } from "../../etcd/copy.ts";
import { CompactedError, SupersededError } from "../../etcd/errors.ts";
import { headroomFor, layFloor, readFloor, writeFloor } from "../../etcd/floor.ts";
import { raiseRevision, writeTombstones } from "../../etcd/revisions.ts";
import { readPosition, settlePosition, writePosition } from "../../etcd/position.ts";
import { pulse, tail } from "../../etcd/tail.ts";
import type { TailProgress } from "../../etcd/follower.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { rangesOnEitherSide, verify } from "../../etcd/verify.ts";
import { differingFields } from "../../kubernetes/differing-fields.ts";
import { copyStages, isEarly } from "../../kubernetes/kcp/families.ts";
import { dependsOnNothing } from "../../kubernetes/kcp/side-by-side.ts";
import { Token } from "../../etcd/token.ts";
import { kinshipOf } from "../../kubernetes/stored-object.ts";
import { pause } from "../../kubernetes/wait.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { seedBoundCrds } from "./bound-crds.ts";
import { warmUp } from "./custom-resources.ts";
import { allowedBetween } from "./differences.ts";
import { heeding } from "./heeding.ts";
import { refuseLateOwner } from "./late-owners.ts";
import { openWhatIsFenced } from "./open-again.ts";
import { openSession } from "./session.ts";
import type { Session } from "./session.ts";
import { clearCopiesOf } from "./copies.ts";
import { refuseAfterSwitch } from "./switched.ts";
import { nameTooLarge } from "./too-large.ts";
import { hasDirection, isOpposed } from "./turn.ts";
import type { LogicalClusterActivities } from "./types.ts";
import { beginWork } from "../work.ts";
import type { Work } from "../work.ts";

/** Caught up: two pulses in a row came by in this time. */
const SMALL_LAG_MS = 250;
/** How often a follower marks the origin's history, to measure its lag. */
const PULSE_EVERY_MS = 1_000;
/** Floors (etcd/floor.ts) that an attempt lays: each foresees the pace of the origin from the one before. */
const MOST_FLOORS = 3;
/** How often one that was superseded looks whether it may go on. */
const LOOK_EVERY_MS = 1_000;
const SAMPLES = 20;

type Steps = Pick<
  LogicalClusterActivities,
  "alignRevisions" | "copySnapshot" | "catchUp" | "follow" | "verify"
>;

export function createTransferActivities(site: KcpSite): Steps {
  return {
    async alignRevisions(subject) {
      const { revisions } = subject;
      using work = beginWork("AlignRevisions");
      const session = await openSession(site, subject);
      const [origin, before] = await Promise.all([session.from.store.head(), session.to.store.head()]);
      const summary = { from: String(before), to: String(before), puts: 0 };
      if (revisions === "accept-relist") return summary;
      if (revisions === "require" && before < origin) {
        throw failure("Refused", {
          message: `the revision of ${subject.to} is behind that of ${subject.from}`,
          found: `${before} < ${origin}`,
          advice: 'start with "revisions": "align"',
        });
      }
      // There are copies already, as after a reset: those that are equal stay at the revisions that they have.
      if (await readFloor(session.to.store, subject.cluster)) return summary;
      const at = Date.now();
      // Tail does it then, when it is this move's turn.
      const target = (await isOpposed(session.from, session.to, subject))
        ? before
        : origin + headroomFor(undefined, origin, at);
      const { revision, puts } = await raise(session.destination, target, work);
      await writeFloor(session.destination, { revision, origin, at });
      return { from: String(before), to: String(revision), puts };
    },

    async copySnapshot(subject) {
      using work = beginWork("CopySnapshot");
      const session = await openSession(site, subject);
      await refuseAfterSwitch(session);
      await openWhatIsFenced(site, session, subject, work.signal);
      await clearOldCopies(site, session, work.signal);
      return await copyEverything(session, work).catch(async (error: unknown) => {
        throw await nameTooLarge(error, session);
      });
    },

    async catchUp(subject) {
      using work = beginWork("Tail");
      const session = await openSession(site, subject);
      await refuseAfterSwitch(session);
      await openWhatIsFenced(site, session, subject, work.signal);
      let changes = 0;
      let floors = 0;
      for (let quick = 0; ;) {
        const until = await pulse(session.origin);
        const progress = await tailOrCopy(session, work, until);
        changes += progress.changes;
        quick = (progress.lagMs ?? Infinity) <= SMALL_LAG_MS ? quick + 1 : 0;
        if (quick < 2) continue;
        const mayRaise = await hasDirection(session.from, session.to, subject);
        if (mayRaise && (await stayAhead(session, work, floors))) {
          floors += 1;
          quick = 0;
          continue;
        }
        await session.destination.handBack();
        return { position: String(progress.position), changes, lagMs: progress.lagMs ?? 0 };
      }
    },

    async follow(subject) {
      using work = beginWork("Tail");
      const session = await openSession(site, subject);
      await refuseAfterSwitch(session);
      const timer = setInterval(() => void pulse(session.origin).catch(() => undefined), PULSE_EVERY_MS);
      try {
        while (!work.signal.aborted) await tailOrCopy(session, work);
        // A worker that shuts down cancels it too, and only one that says so is begun again by another.
        work.signal.throwIfAborted();
      } catch (error) {
        // A later step of this move goes on from the recorded position. After a repair nobody does: then this activity is
        // tried again, which gives it a new token.
        if (!(error instanceof SupersededError)) throw error;
        const isHandedBack = async () => await Token.isHandedBack(session.to.store, session.cluster);
        while (!(await isHandedBack().catch(() => false))) await pause(LOOK_EVERY_MS, work.signal);
        throw error;
      } finally {
        clearInterval(timer);
      }
    },

    async verify(subject) {
      using work = beginWork("Verify");
      const [from, to] = await Promise.all([site.shard(subject.from), site.shard(subject.to)]);
      const proof = await verify(from.store, to.store, {
        cluster: subject.cluster,
        signal: work.signal,
        includes: isEarly,
        allowed: allowedBetween({ from, to }),
        partsOf: differingFields,
        onProgress: (done) => work.tell({ done, unit: "keys" }),
      });
      await warmUp({ from, to, cluster: subject.cluster }, proof.destinationRevision, {
        signal: work.signal,
      });
      return {
        position: String(proof.position),
        destinationRevision: String(proof.destinationRevision),
        keys: proof.families.reduce((sum, { keys }) => sum + keys, 0),
        bytes: proof.families.reduce((sum, { bytes }) => sum + bytes, 0),
        families: proof.families,
        allowed: proof.allowed.slice(0, SAMPLES),
        allowedTotal: proof.allowed.length,
        unequal: proof.unequal,
        samples: proof.samples,
      };
    },
  };
}

/** Of an earlier move that could not clear up behind itself. Once something is copied, its copies are new ones. */
async function clearOldCopies(
  site: KcpSite,
  { cluster, from, to, destination }: Session,
  signal: AbortSignal,
): Promise<void> {
  if ((await rangesOf(to.store, cluster)).length > 0) return;
  const check = async () => await destination.check();
  const shards = { gone: to.name, host: from.name };
  const left = await clearCopiesOf(site, { cluster, ...shards }, { check, signal, onlyIfAny: true });
  if (left.length > 0) log.warn("left in kcp's cache", { left });
}

/** Copies all but the late families as of now, and records the position from which to tail. */
async function copyEverything(session: Session, work: Work) {
  const { from, to, origin, destination, writer, cluster } = session;
  const revision = await pulse(origin);
  const ranges = (await rangesOnEitherSide(from.store, to.store, cluster)).filter(({ family }) =>
    isEarly(family),
  );
  const total = await countAll(session, revision, ranges);
  const { signal } = work;
  const [copied, tombstones] = await heeding(to, destination.pace, async () => [
    await copySnapshot({ store: from.store, revision }, writer, {
      cluster,
      stages: copyStages(ranges),
      kinship: (entry) => {
        const kinship = kinshipOf(entry.value);
        if (kinship !== undefined) refuseLateOwner(entry);
        return kinship;
      },
      signal,
      onProgress: ({ keys, bytes }) => work.tell({ done: keys, total, unit: "keys", bytes }),
    }),
    await writeTombstones(from.store, writer, { cluster, until: revision, signal }),
  ]);
  const seededCrds = await seedBoundCrds(session, work.signal);
  await writePosition(destination, revision);
  return { revision: String(revision), ...copied, tombstones, seededCrds };
}

/**
 * Where the origin has used up half of its headroom, all that was copied is lifted above what it will count until the
 * switch. @returns whether that was necessary, so that there is more to catch up with.
 * @param laid how many floors this attempt has laid already
 */
async function stayAhead(session: Session, work: Work, laid: number): Promise<boolean> {
  const { from, to, destination, cluster, align } = session;
  const floor = align ? await readFloor(to.store, cluster) : undefined;
  if (floor === undefined) return false;
  const before = await from.store.head();
  const headroom = headroomFor(floor, before, Date.now());
  if (floor.revision >= before + headroom / 2n) return false;
  if (laid === MOST_FLOORS) throw outrun(session);
  await raise(destination, before + headroom, work);
  // That may have taken long.
  const [origin, at] = [await from.store.head(), Date.now()];
  const { revision } = await layFloor(destination, origin + headroom, {
    signal: work.signal,
    onProgress: (done) => work.tell({ done, unit: "keys" }),
  });
  // Once what came before it is carried over: who owned what has gone may have had another owner since, and would go with it.
  const until = await pulse(session.origin);
  await tailOrCopy(session, work, until);
  const position = await settlePosition(destination, until);
  await writeTombstones(from.store, session.writer, { cluster, until: position, signal: work.signal });
  await writeFloor(destination, { revision, origin, at });
  return true;
}

async function raise(token: Token, target: bigint, work: Work) {
  const before = await token.store.head();
  return await raiseRevision(token, target, {
    signal: work.signal,
    onProgress: (reached) =>
      work.tell({ done: Number(reached - before), total: Number(target - before), unit: "revisions" }),
  });
}

/** Tried again after a while, in which others get their chance. */
function outrun({ from, to }: Session): Error {
  return failure("Timeout", {
    message: `${to.name} was raised above ${from.name} ${MOST_FLOORS} times, and each time ${from.name} had counted that up before all copies stood above it`,
    advice: `tried again by itself; moves in a ring of shards do so to each other: let one end first; "revisions": "accept-relist" does without`,
  });
}

async function countAll(
  session: Session,
  revision: bigint,
  ranges: Awaited<ReturnType<typeof rangesOnEitherSide>>,
) {
  const counts = await Promise.all(
    ranges.map(async (range) => await session.from.store.count(range, revision)),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Tails; where the place in the origin's history has been compacted away, compares and repairs, and tails on. */
async function tailOrCopy(session: Session, work: Work, until?: bigint): Promise<TailProgress> {
  const { from, to, cluster, writer } = session;
  const options = { cluster, signal: work.signal, includes: isEarly, isFree: dependsOnNothing };
  try {
    return await tail(from.store, writer, {
      ...options,
      ...(until !== undefined && { until }),
      onProgress: ({ changes, lagMs }) =>
        work.tell({ done: changes, unit: "changes", ...(lagMs !== undefined && { lagMs }) }),
    });
  } catch (error) {
    if (!(error instanceof CompactedError)) throw await nameTooLarge(error, session);
    await copyEverything(session, work);
    const { position } = (await readPosition(to.store, cluster))!;
    return { position, changes: 0, lagMs: undefined };
  }
}
