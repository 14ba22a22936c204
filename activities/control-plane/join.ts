import { listMembers } from "../../etcd/membership/converge.ts";
import { addLearner, promote, updatePeerUrls } from "../../etcd/membership/operations.ts";
import { isNewer, roundTripMs } from "../../etcd/membership/round-trip.ts";
import type { RoundTripReading } from "../../etcd/membership/round-trip.ts";
import { awaitInSync } from "../../etcd/membership/sync.ts";
import type { MemberId } from "../../etcd/membership/types.ts";
import type { MemberAddress } from "../../hosting/types.ts";
import { pause, together } from "../../kubernetes/wait.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { checkExposedEtcds } from "./etcd-check.ts";
import { allEtcds, refOf } from "./etcd.ts";
import type { StretchedEtcd } from "./etcd.ts";
import { leadAtSource, removeFollower } from "./leader.ts";
import { step, undoStep } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities, EtcdLayout, EtcdState, MemberRef } from "./types.ts";

type Steps = Pick<
  ControlPlaneActivities,
  | "exposeSourcePeers"
  | "hideSourcePeers"
  | "exposeDestinationPeers"
  | "joinDestinationPeers"
  | "removeDestinationPeers"
>;

/** Revisions that a healthy member may be behind while nothing but its address changes. */
const IN_STEP = 1000;
const ROUND_TRIP = { everyMs: 1_000, deadlineMs: 120_000 };

export function createJoinActivities(sites: ControlPlaneSites): Steps {
  return {
    exposeSourcePeers: step(sites, "ExposeSourcePeers", async (session) => {
      const { hosting, subject, config, signal } = session;
      const layouts = await Promise.all(config.etcds.map(async (etcd) => await sourceLayout(session, etcd)));
      // Before a member is touched: Preflight may have had no way to ask.
      const states = await checkExposedEtcds(hosting, subject.controlPlane, signal);
      await allEtcds(session, { layouts, maxLagRevisions: IN_STEP }, async (etcd) => {
        await hosting.advertisePeers(etcd.name, etcd.layout.source, signal);
        await expose(etcd);
      });
      return layouts.map((layout) => {
        const found = states.find(({ name }) => name === layout.name);
        return found ? { ...layout, found } : layout;
      });
    }),

    hideSourcePeers: undoStep(sites, "ExposeSourcePeers", async (session) => {
      const { hosting, config, signal } = session;
      const hide = async (name: string) => {
        // An etcd that was told nothing, perhaps because the worker cannot reach it, must not hold up the undo.
        if (await hosting.mayHaveOuterPeers(name, signal)) {
          const layouts = [await sourceLayout(session, name)];
          await allEtcds(session, { layouts, maxLagRevisions: IN_STEP }, takeBack);
        }
        await hosting.hidePeers(name, signal);
      };
      await together(config.etcds, hide);
    }),

    exposeDestinationPeers: step(sites, "CopySecrets", async ({ hosting, signal }, { layouts }) => {
      const completed = layouts.map(async (layout) => {
        return { ...layout, destination: await hosting.exposePeers("destination", layout.name, signal) };
      });
      return await Promise.all(completed);
    }),

    joinDestinationPeers: step(sites, "JoinDestinationPeers", async (session, input) => {
      let slowest = 0;
      const members = await allEtcds(session, input, async (etcd) => {
        const state = input.etcds.find(({ name }) => name === etcd.name);
        const joined = await join(session, etcd, state, input);
        slowest = Math.max(slowest, joined.roundTripMs);
        return joined.members;
      });
      return { members: members.flat(), roundTripMs: slowest };
    }),

    removeDestinationPeers: undoStep(sites, "JoinDestinationPeers", async (session, input) => {
      // All of them first: that works also while the destination is cut off, and the source is safe then.
      await allEtcds(session, input, leaveAll);
      for (const { name } of input.layouts)
        await session.hosting.stopMembers("destination", name, 0, session.signal);
      // What runs beside a member may have added it again until it was stopped.
      if (session.hosting.promotesByItself) await allEtcds(session, input, leaveAll);
    }),
  };
}

/** The source's members as they are reached from outside, which they are from now on. */
async function sourceLayout({ hosting, signal }: Session, name: string): Promise<EtcdLayout> {
  return {
    name,
    inner: await hosting.innerPeerUrls(name, signal),
    source: await hosting.exposePeers("source", name, signal),
    destination: [],
  };
}

/** One member after the other: the others reach it by its new address before the next one's changes. */
async function expose(etcd: StretchedEtcd): Promise<void> {
  for (const address of etcd.layout.source) {
    const member = await etcd.memberAt(address);
    if (member === undefined) {
      throw failure("Refused", {
        message: `${etcd.cluster.name} has no member for the pod ${address.pod}`,
        advice: "its peer URL must be the address of the Service that has the pod's name",
      });
    }
    await updatePeerUrls(etcd.cluster, member.id, [address.peerUrl], etcd.wait);
    await awaitInSync(etcd.cluster, member.id, { maxLagRevisions: IN_STEP }, etcd.wait);
  }
}

/** The members use their inner addresses again. */
async function takeBack({ cluster, layout, memberAt, wait }: StretchedEtcd): Promise<void> {
  for (const address of layout.source) {
    const member = await memberAt(address);
    const url = layout.inner[address.pod];
    if (member && url) await updatePeerUrls(cluster, member.id, [url], wait);
  }
}

interface Limits {
  readonly maxRoundTripMs: number;
  readonly maxLagRevisions: number;
}

async function join(
  session: Session,
  etcd: StretchedEtcd,
  state: EtcdState | undefined,
  limits: Limits,
): Promise<{ members: MemberRef[]; roundTripMs: number }> {
  const members: MemberRef[] = [];
  for (const [ordinal, address] of etcd.layout.destination.entries()) {
    const isLast = ordinal === etcd.layout.destination.length - 1;
    // It would not stay a learner: CommitQuorum starts it.
    if (isLast && session.hosting.promotesByItself) break;
    const id = await startMember(session, etcd, address, ordinal);
    await awaitInSync(etcd.cluster, id, { maxLagRevisions: limits.maxLagRevisions }, etcd.wait);
    if (!isLast) {
      await promote(etcd.cluster, id, etcd.allowed({ kind: "promote", id }));
      await session.hosting.awaitMemberReady("destination", etcd.name, ordinal, session.signal);
    }
    const member = await etcd.memberAt(address);
    if (member) members.push(refOf(etcd.name, member));
    session.tell({
      done: ordinal + 1,
      total: etcd.layout.destination.length,
      unit: `members of ${etcd.name}`,
    });
  }
  // Now, because etcd takes half a minute to know. A voter that is too slow has harmed nobody: the source has the quorum.
  return { members, roundTripMs: await measureRoundTrip(session, etcd, state, limits) };
}

/** Adds a member unless an earlier attempt has, and starts it. */
export async function startMember(
  session: Session,
  etcd: StretchedEtcd,
  address: MemberAddress,
  ordinal: number,
): Promise<MemberId> {
  const known = await etcd.memberAt(address);
  const id =
    known?.id ?? (await addLearner(etcd.cluster, address.peerUrl, etcd.allowed({ kind: "add-learner" })));
  const { members } = await listMembers(etcd.cluster, session.signal);
  const own = `${session.subject.to}-${address.pod}`;
  const initialCluster = members.flatMap((member) =>
    member.peerUrls.map((url) => `${member.id === id ? own : member.name}=${url}`),
  );
  const bootstrap = { name: own, peerUrl: address.peerUrl, initialCluster };
  await session.hosting.startMember(etcd.name, ordinal, bootstrap, session.signal);
  return id;
}

/**
 * @throws ApplicationFailure `Refused` with the numbers. etcd's rule (docs, tuning: time parameters): an election
 *   timeout of at least ten round trips, a heartbeat interval of about one; half of one is the least that is used.
 */
async function measureRoundTrip(
  session: Session,
  etcd: StretchedEtcd,
  state: EtcdState | undefined,
  { maxRoundTripMs }: Limits,
): Promise<number> {
  const { members } = await etcd.survey();
  const peers = members.filter(({ site }) => site === "source").map(({ id }) => id);
  const { heartbeatMs = 100, electionMs = 1000 } = state ?? {};
  const allowed = Math.min(maxRoundTripMs, electionMs / 10, heartbeatMs * 2);
  const readings: RoundTripReading[] = [];
  let measured: number | undefined;
  while (measured === undefined) {
    readings.push(await nextReading(session, etcd, peers, readings.at(-1)));
    measured = roundTripMs(readings, allowed);
  }
  if (measured <= allowed) return Math.round(measured * 10) / 10;
  throw failure("Refused", {
    message: `a round trip between ${session.subject.from} and ${session.subject.to} takes ${measured.toFixed(1)} ms, as ${etcd.name} measures it`,
    expected: `at most ${allowed} ms: maxRoundTripMs ${maxRoundTripMs}, a tenth of the election timeout ${electionMs} ms, twice the heartbeat interval ${heartbeatMs} ms`,
    advice: "raise --heartbeat-interval and --election-timeout at all members, or choose a nearer seed",
  });
}

async function nextReading(
  { hosting, signal }: Session,
  { name, cluster }: StretchedEtcd,
  peers: readonly string[],
  before: RoundTripReading | undefined,
): Promise<RoundTripReading> {
  const end = performance.now() + ROUND_TRIP.deadlineMs;
  for (;;) {
    const reading = await hosting.peerRoundTrips(name, 0, peers, signal);
    if (reading && isNewer(reading, before)) return reading;
    if (performance.now() > end)
      throw new Error(`${cluster.name} has not measured a round trip in ${ROUND_TRIP.deadlineMs} ms`);
    await pause(ROUND_TRIP.everyMs, signal);
  }
}

async function leaveAll(etcd: StretchedEtcd): Promise<void> {
  for (const address of etcd.layout.destination.toReversed()) await leave(etcd, address);
}

async function leave(etcd: StretchedEtcd, address: MemberAddress): Promise<void> {
  const member = await etcd.memberAt(address);
  if (member === undefined) return;
  const allowed = etcd.allowed({ kind: "remove", id: member.id });
  await removeFollower(etcd, member.id, allowed, async () => await leadAtSource(etcd));
}
