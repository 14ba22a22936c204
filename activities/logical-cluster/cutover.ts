import { setTimeout as delay } from "node:timers/promises";
import { ApplicationFailure, Context, activityInfo } from "@temporalio/activity";
import { CompactedError } from "../../etcd/errors.ts";
import { logicalClusterKey, ownKeys } from "../../etcd/keys.ts";
import type { Key } from "../../etcd/keys.ts";
import { copySnapshot } from "../../etcd/copy.ts";
import { put, remove, when } from "../../etcd/store.ts";
import type { Entry } from "../../etcd/store.ts";
import { isAt, readPosition, settlePosition } from "../../etcd/position.ts";
import type { Position } from "../../etcd/position.ts";
import { pulse, startTail, tail } from "../../etcd/tail.ts";
import type { RunningTail } from "../../etcd/tail.ts";
import { changedKeys, rangesOnEitherSide, verify } from "../../etcd/verify.ts";
import { differingFields } from "../../kubernetes/differing-fields.ts";
import { CutWatch } from "../../kubernetes/kcp/cut-watch.ts";
import type { Fence } from "../../kubernetes/kcp/fence.ts";
import { isEarly, isLate } from "../../kubernetes/kcp/families.ts";
import { dependsOnNothing } from "../../kubernetes/kcp/side-by-side.ts";
import { withHealing, withoutFence } from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import { kinshipOf } from "../../kubernetes/stored-object.ts";
import { hasDeadContext } from "../../kubernetes/kcp/probe.ts";
import { unlessAborted } from "../../kubernetes/wait.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { seedBoundCrds } from "./bound-crds.ts";
import { refuseDeleted, refuseSuspended } from "./deleted.ts";
import {
  FENCE_HEADROOM,
  isSeenFenced,
  mustBeAhead,
  mustBeEqual,
  mustBeFenced,
  mustCountAlike,
} from "./cutover-checks.ts";
import { warmUpBriefly } from "./custom-resources.ts";
import { allowedBetween } from "./differences.ts";
import { letDeletersEnd, mustNotBeMadeAgain } from "./made-again.ts";
import { openAgain, openWhatIsFenced } from "./open-again.ts";
import { fenceOf, openSession, readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";
import { fenceRecord, preventSwitch, readFences, readSwitched } from "./switched.ts";
import { healAfterInactive } from "./heal-inactive.ts";
import { rerouteSoon } from "./reroute.ts";
import { nameTooLarge } from "./too-large.ts";
import { mustHaveDirection, mustHaveTurn } from "./turn.ts";
import type { FenceSpan, LogicalClusterActivities, Switched } from "./types.ts";
import { beginWork } from "../work.ts";

type Cutover = LogicalClusterActivities["cutover"];
type Input = Parameters<Cutover>[0];

/** A verification older than this is repeated before the cutover, so that the check inside the fence stays small. */
const PROOF_AGE_MS = 2 * 60_000;

/** How long front-proxies may have to wait for AwaitRouting, which looks after them. */
const HEALED_SOON_MS = 3_000;

/** How often the origin is asked whether it refuses yet. */
const PROBE_EVERY_MS = 5;

/**
 * Keys from which on the cut is made together with the mark. kcp forgets the cluster's objects, one by one, as soon as it
 * has marked it, and looks at the fence again only then (kcp v0.32.3, pkg/informer/informer.go, PurgeCluster): measured
 * are 23 s for 300,000 on two busy cores.
 */
const LARGE = 10_000;

/**
 * The cutover: catch up, fence, prove the fence, cut, drain, check, switch. The switch records itself in the transaction
 * that makes it, so a repetition finds it done. A fence is recorded before it is set, so a repetition that finds one
 * takes it off before all else: nothing is made ready, and nothing can go wrong, while users wait.
 */
export function createCutover(site: KcpSite): Cutover {
  return async (input) => {
    using work = beginWork("Cutover");
    const session = await openSession(site, input, { deletesOnly: true });
    // What an earlier attempt has sent cannot take effect any more, whoever's token it carries.
    const switched = (await preventSwitch(session)) ?? (await switchOver(site, session, input, work.signal));
    if (input.fence === "migration")
      await rerouteSoon(site, session, input, BigInt(switched.position), work.signal);
    return switched;
  };
}

async function switchOver(
  site: KcpSite,
  session: Session,
  input: Input,
  signal: AbortSignal,
): Promise<Switched> {
  await refuseDeleted(session.from, input.cluster);
  const fence = fenceOf(site, input, session.from, async () => await session.origin.check());
  await openWhatIsFenced(site, session, input, signal);
  refuseFull(session);
  if (input.fence === "inactive") await mustHaveTurn(session.from, input, "NotVerified");
  if (session.align) await mustHaveDirection(session.from, session.to, input, "NotVerified");
  refuseOldProof(session, input);
  refuseSuspended(await refuseDeleted(session.from, input.cluster), input.cluster);
  // Found here it costs no fence; the switch looks once more, in its transaction.
  if (await readLogicalCluster(session.to, input.cluster)) throw appeared(session);
  try {
    const switched = await cutOver(session, input, fence, signal);
    // Watches of all clusters try again 0.8 s after they were cut, and later each time. AwaitRouting heals what is not healed here.
    if (input.fence === "inactive") {
      const soon = AbortSignal.any([signal, AbortSignal.timeout(HEALED_SOON_MS)]);
      await healAfterInactive(session, soon).catch(() => undefined);
    }
    return switched;
  } catch (error) {
    if (!(error instanceof CompactedError)) throw error;
    throw failure("NotVerified", "the history since the proof has been compacted: it is made again");
  }
}

/** With the users served, and where the move can be aborted, it is waited for. */
function refuseFull({ from, to, origin, destination }: Session): void {
  const full = destination.isAdopted ? to : origin.isAdopted ? from : undefined;
  if (full === undefined) return;
  throw failure("FenceBudgetExceeded", {
    message: `${full.store.name} is full and takes nothing but deletions (alarm NOSPACE); no fence is up`,
    advice: "make room or raise --quota-backend-bytes, and disarm the alarm",
  });
}

/** Asked here and not by the workflow: only the store knows whether the switch has been made already. */
function refuseOldProof(session: Session, { provenAt }: Input): void {
  if (provenAt === undefined) return;
  const ageMs = activityInfo().currentAttemptScheduledTimestampMs - provenAt;
  if (ageMs <= PROOF_AGE_MS) return;
  throw failure(
    "NotVerified",
    `the proof is ${Math.round(ageMs / 1000)} s old: ${session.from.name} and ${session.to.name} are proven equal again`,
  );
}

async function cutOver(session: Session, input: Input, fence: Fence, signal: AbortSignal): Promise<Switched> {
  // Before both shards hold the late families, and others can resolve neither: it may be a while until the move comes here again.
  await mustBeAhead(session, await session.from.store.head(), 2n * FENCE_HEADROOM);
  const named = async (error: unknown) => {
    throw await nameTooLarge(error, session);
  };
  const position = await catchUp(session, signal).catch(named);
  await letDeletersEnd(session, signal);
  await copyLateFamilies(session, position, signal).catch(named);
  await using running = await startTail(session.from.store, session.writer, {
    cluster: input.cluster,
    keepsKeys: true,
    isFree: dependsOnNothing,
    signal,
  });
  using watch = new CutWatch(session.from.replicas, input.cluster);
  await fence.prepare();
  const prepared = await prepare(session, input, { tail: running, deletersEndedAt: position, signal });
  return await underFence(
    session,
    input,
    fence,
    async (fenceAt, sending, until) =>
      await insideFence(session, input, {
        fence,
        fenceAt,
        sending,
        watch,
        prepared,
        tail: running,
        deletersEndedAt: position,
        signal: until,
      }),
  );
}

const kinship = ({ value }: Entry) => kinshipOf(value);

/** @returns the revision of the origin that all families have reached but for those that wait for the cutover. */
async function catchUp({ from, origin, destination, cluster, writer }: Session, signal: AbortSignal) {
  const until = await pulse(origin);
  await tail(from.store, writer, {
    cluster,
    signal,
    until,
    includes: isEarly,
    isFree: dependsOnNothing,
  });
  return await settlePosition(destination, until);
}

/** Copies the families that have waited for the cutover, as of the position that all others have reached. */
async function copyLateFamilies(session: Session, revision: bigint, signal: AbortSignal): Promise<void> {
  const { from, to, cluster, writer } = session;
  const late = (await rangesOnEitherSide(from.store, to.store, cluster)).filter(({ family }) =>
    isLate(family),
  );
  // An APIExport owns its APIExportEndpointSlice, which the garbage collector would take for an orphan and delete.
  await copySnapshot({ store: from.store, revision }, writer, {
    cluster,
    stages: [late],
    kinship,
    // No attempt comes between these writes and the switch whose token would make them void.
    conditions: [isAt(session.destination, revision)],
    signal,
  });
  await seedBoundCrds(session, signal);
}

interface Prepared {
  readonly ranges: Awaited<ReturnType<typeof rangesOnEitherSide>>;
  /** kcp takes long to forget the cluster's objects. */
  readonly isLarge: boolean;
  /** The destination has hosted the cluster before, and its cancelled contexts must be healed by the switch. */
  readonly heal: boolean;
  readonly earlierFences: readonly FenceSpan[];
}

/** All that can be done while users still write: catch up, and compare what has changed since Verify. */
async function prepare(
  session: Session,
  input: Input,
  { tail: running, deletersEndedAt, signal }: Pick<Inside, "tail" | "deletersEndedAt" | "signal">,
): Promise<Prepared> {
  const { from, to, origin, cluster } = session;
  // What has come by is at or before the pulse, up to which all is compared here; the rest is in the fence.
  running.takeChanged();
  const until = await pulse(origin);
  const [ranges, heal, changed, changedThere] = await Promise.all([
    rangesOnEitherSide(from.store, to.store, cluster),
    hasDeadContext(to.api, cluster),
    changedKeys(from.store, { cluster, from: BigInt(input.verifiedAt) + 1n, until, signal }),
    changedAtDestination(session, input, signal),
    running.reach(until),
  ]);
  await mustNotBeMadeAgain(from.store, changed, deletersEndedAt, until);
  const late = await verify(from.store, to.store, {
    cluster,
    signal,
    includes: isLate,
    allowed: allowedBetween({ from, to }),
    partsOf: differingFields,
  });
  if (late.unequal > 0) throw failure("NotVerified", late.samples.join("; "));
  const recorded = await settledPosition(session, running);
  await mustBeEqual(session, new Set([...changed, ...changedThere]), {
    origin: recorded.position,
    destination: recorded.revision,
  });
  await mustBeAhead(session, await from.store.head());
  // Resources that came since Verify.
  await warmUpBriefly(session, recorded.revision, signal);
  const isLarge = ranges.reduce((sum, { keys }) => sum + keys, 0) > LARGE;
  return { ranges, isLarge, heal, earlierFences: await readFences(session) };
}

/** The position, at which the destination has all that anybody has written there up to now. */
async function settledPosition({ to, origin, cluster }: Session, running: RunningTail): Promise<Position> {
  for (;;) {
    const recorded = (await readPosition(to.store, cluster))!;
    if (recorded.until === undefined) return recorded;
    await running.reach(await pulse(origin));
  }
}

/** What anybody has written at the destination since Verify: beside the tail's writes there may be a stranger's. */
async function changedAtDestination(
  { to, destination, cluster }: Session,
  { verifiedAtDestination }: Input,
  signal: AbortSignal,
): Promise<Set<Key>> {
  if (verifiedAtDestination === undefined) return new Set();
  const until = await pulse(destination);
  return await changedKeys(to.store, { cluster, from: BigInt(verifiedAtDestination) + 1n, until, signal });
}

/** What is known of the switch in this attempt. */
interface Sending {
  /** Its transaction may take effect from now on, whatever was answered. */
  isSent: boolean;
}

/** Sets the time of the fence and takes the fence off again when `run` fails or does not end in time. */
async function underFence(
  session: Session,
  input: Input,
  fence: Fence,
  run: (fenceAt: number, sending: Sending, signal: AbortSignal) => Promise<Switched>,
): Promise<Switched> {
  const stop = Context.current().cancellationSignal;
  const at = await recordFence(session);
  const deadline = AbortSignal.timeout(input.fenceBudgetMs);
  const sending: Sending = { isSent: false };
  try {
    return await run(at, sending, AbortSignal.any([deadline, stop]));
  } catch (error) {
    const isOverdue = deadline.aborted;
    // The answer of the switch may have been lost; after it there is no opening again. One that was not sent is not asked
    // for: it may be the destination's store that has failed.
    const done = sending.isSent ? await preventSwitch(session) : undefined;
    if (done) return done;
    await openAgain(session, input.fence, fence, stop);
    const isKnown = error instanceof ApplicationFailure || error instanceof CompactedError;
    if (!isOverdue && (isKnown || stop.aborted)) throw error;
    // Whatever it was, users have waited for it: it is not repeated on the spot.
    throw failure("FenceBudgetExceeded", {
      message: `the switch was not done${isOverdue ? ` in ${input.fenceBudgetMs} ms` : ""}; the fence is off and ${input.from} serves again`,
      found: error instanceof Error ? error.message : String(error),
    });
  }
}

interface Inside {
  readonly fence: Fence;
  /** When it was asked for, ms since the epoch. */
  readonly fenceAt: number;
  readonly sending: Sending;
  readonly watch: CutWatch;
  readonly prepared: Prepared;
  readonly tail: RunningTail;
  /** Revision of the origin, as of which the destination's deleters know what they may delete. */
  readonly deletersEndedAt: bigint;
  readonly signal: AbortSignal;
}

async function insideFence(session: Session, input: Input, inside: Inside): Promise<Switched> {
  const { fence, fenceAt, sending, watch, prepared, tail: running, deletersEndedAt, signal } = inside;
  const { to, origin, cluster } = session;
  // A watch that has ended before tells nothing.
  const seen = watch.isOpen ? watch.ended : undefined;
  const atOnce = prepared.isLarge && seen !== undefined;
  await fence.set({ atOnce, signal });
  while (!(await isSeenFenced(session, input.fence, signal)))
    await delay(PROBE_EVERY_MS, undefined, { signal });
  const fencedAt = Date.now();
  await fence.cut({ seen: atOnce ? seen : undefined, signal });
  const cutAt = Date.now();

  const end = await unlessAborted(pulse(origin), signal);
  await running.reach(end, signal);
  // What comes later is a late write, and carried over after the switch with a look at what is there by then.
  await unlessAborted(running[Symbol.asyncDispose](), signal);
  const drainedAt = Date.now();

  const changed = running.takeChanged();
  const checks = Promise.all([
    mustCountAlike(session, prepared.ranges, end),
    readForSwitch(session, input, prepared),
    mustBeEqual(session, changed, { origin: end }),
    mustNotBeMadeAgain(session.from.store, changed, deletersEndedAt, end),
    mustBeFenced(session, input.fence),
    mustBeAhead(session, end, 0n),
    // An API that was bound since the late families were copied has a CRD that nobody carries over.
    [...changed].some(isBinding) && seedBoundCrds(session, signal),
  ]);
  const [keys, object] = await unlessAborted(checks, signal);
  const checkedAt = Date.now();

  signal.throwIfAborted();
  sending.isSent = true;
  const result: Switched = {
    fenceAt,
    fencedAt,
    cutAt,
    drainedAt,
    checkedAt,
    switchedAt: Date.now(),
    position: String(end),
    changes: changed.size,
    keys,
    healed: prepared.heal,
    ...(prepared.earlierFences.length > 0 && { earlierFences: prepared.earlierFences }),
  };
  const key = logicalClusterKey(to.store.prefix, cluster);
  const own = ownKeys(to.store.prefix, cluster);
  const { succeeded } = await session.destination.transact(
    [when.modifiedAt(key, 0n), when.valueIs(own.armed, fenceRecord(fenceAt))],
    // Without the position nothing of the tail can take effect any more that was sent and not answered.
    [put(key, JSON.stringify(object)), put(own.switched, JSON.stringify(result)), remove(own.cursor)],
  );
  if (succeeded) return result;
  // The client repeats a transaction whose answer was lost, so it may be our own object that is there.
  const done = await readSwitched(session);
  if (done) return done;
  throw appeared(session);
}

function appeared({ to, cluster }: Session): Error {
  return failure("Conflict", {
    message: `logical cluster ${cluster} appeared at the destination, and not by this move`,
    site: to.name,
    advice: `find out who made it, and delete the LogicalCluster at ${to.name}`,
  });
}

/** The LogicalCluster object as it goes to the destination. */
async function readForSwitch(
  { from, to, cluster }: Session,
  { fence }: Input,
  { heal }: Prepared,
): Promise<LogicalCluster> {
  const object = await refuseDeleted(from, cluster);
  if (fence === "migration") refuseSuspended(object, cluster);
  return heal ? withHealing(object, to.name) : withoutFence(object);
}

/** Notes down that the fence is about to be asked for, for an attempt that comes after a crash. @returns when, ms */
async function recordFence(session: Session): Promise<number> {
  const at = Date.now();
  const { fence, armed } = ownKeys(session.to.store.prefix, session.cluster);
  await session.destination.transact([], [put(fence, fenceRecord(at)), put(armed, fenceRecord(at))]);
  return at;
}

function isBinding(key: Key): boolean {
  return key.includes("/apis.kcp.io/apibindings/");
}
