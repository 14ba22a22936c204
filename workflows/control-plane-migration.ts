import { patched, sleep, uuid4, workflowInfo } from "@temporalio/workflow";
import type {
  Committed,
  ControlPlaneActivities,
  ControlPlaneAdmission,
  ControlPlaneReport,
  ControlPlaneSubject,
  DnsRecordState,
  Drained,
  EtcdLayout,
  HandedOver,
  Joined,
  Soaked,
  SourceStopped,
  StretchedSubject,
  SwitchedDns,
} from "../activities/control-plane/types.ts";
import type { CarriedOver, Side } from "../hosting/types.ts";
import type { Admitted, Carried } from "./engine/definition.ts";
import { phase } from "./engine/phase.ts";
import { activitiesFor } from "./engine/retries.ts";
import type { StepTable } from "./engine/retries.ts";
import { runMigration } from "./engine/run.ts";
import type { Timeline } from "./engine/timeline.ts";

/** What the phases know; everything here survives continuing as new. */
interface Move extends ControlPlaneAdmission {
  readonly move: string;
  /** The control plane carries the move's claim, unless somebody has taken it away. */
  claimed?: true;
  ttlLoweredAt?: number;
  layouts?: readonly EtcdLayout[];
  carriedOver?: CarriedOver;
  joined?: Joined;
  /** Sides whose VPN server has a client of its own in the data plane. */
  bridged?: readonly Side[];
  /** Values of the DNS record that lead to the destination. */
  destinationValues?: readonly string[];
  switched?: SwitchedDns;
  soaked?: Soaked;
  /** The source's controllers may be stopped, and come back in CopySecrets' undo at the latest. */
  handingOver?: true;
  /** They are stopped, perhaps, and nothing of the destination's has been started. */
  onlyStopped?: true;
  handedOver?: HandedOver;
  drained?: Drained;
  committed?: Committed;
  voters?: ControlPlaneReport["voters"];
  leftInPlace?: readonly string[];
}

const MINUTE_MS = 60_000;

const table: StepTable<ControlPlaneActivities> = {
  preflightControlPlane: {
    class: "read",
    summary: "Check input, seeds, etcd, DNS and VPN; change nothing",
    // Longer than it waits for the address of a Service, which it then names.
    limits: { attemptMs: 6 * 60_000, heartbeatMs: 15_000 },
  },
  claimControlPlane: { class: "mutate", summary: (s) => `Claim ${s.controlPlane} for this move` },
  releaseControlPlane: { class: "mutate", summary: "Give the claim back" },
  exposeSourcePeers: {
    class: "wait",
    summary: (s) => `Give the etcd members of ${s.from} addresses that ${s.to} reaches`,
  },
  hideSourcePeers: { class: "wait", summary: "Undo: give the members their inner addresses back" },
  setRecordTtl: {
    class: "wait",
    summary: (s) => `Set the TTL of the DNS record to ${s.record.ttlSeconds} s`,
  },
  restoreRecordTtl: {
    class: "wait",
    summary: (s) => `Undo: set the TTL of the DNS record to ${s.record.ttlSeconds} s again`,
  },
  copySecrets: {
    class: "wait",
    summary: (s) => `Copy Secrets and all other objects to ${s.to}, and compare the Secrets`,
  },
  exposeDestinationPeers: {
    class: "wait",
    summary: (s) => `Give the members to come at ${s.to} their addresses`,
  },
  clearDestinationSeed: { class: "wait", summary: (s) => `Undo: delete at ${s.to} what was copied` },
  joinDestinationPeers: {
    class: "wait",
    summary: (s) => `Let three members of ${s.to} join each etcd: two vote, the third learns`,
    limits: { attemptMs: 2 * 60 * MINUTE_MS, totalMs: 6 * 60 * MINUTE_MS },
  },
  removeDestinationPeers: {
    class: "wait",
    summary: (s) => `Undo: remove the members of ${s.to}, last first, with their data`,
  },
  startDestinationApiServers: {
    class: "wait",
    summary: (s) => `Start API servers at ${s.to}; read there what is written at ${s.from}`,
  },
  stopDestinationApiServers: { class: "wait", summary: (s) => `Undo: stop the API servers of ${s.to}` },
  bridgeVpn: {
    class: "wait",
    summary: (s) => `Bridge a tunnel to the VPN server of the ${s.side}, and probe it`,
  },
  dismantleVpnBridge: { class: "wait", summary: (s) => `Take the bridge to the ${s.side} away` },
  switchDns: {
    class: "wait",
    summary: (s) => `Point the DNS record to ${s.to} at every authoritative server`,
  },
  switchDnsBack: { class: "wait", summary: (s) => `Undo: point the DNS record to ${s.from} again` },
  moveVpnClients: {
    class: "wait",
    summary: (s) => `Let the VPN clients dial the ${s.towards}, one at a time`,
  },
  soak: {
    class: "wait",
    summary: (s) => `Watch both seeds serve together for ${Math.round(s.soakMs / 1000)} s`,
    limits: { attemptMs: 8 * 24 * 60 * MINUTE_MS, totalMs: 9 * 24 * 60 * MINUTE_MS },
  },
  stopSourceControllers: {
    class: "wait",
    summary: (s) => `Stop the controllers of ${s.from}, and prove it`,
  },
  handOverControllers: { class: "wait", summary: (s) => `Start the controllers of ${s.to}` },
  returnControllers: {
    class: "wait",
    summary: (s) => `Undo: stop the controllers of ${s.to}, prove it, then start those of ${s.from}`,
  },
  drainSourceApiServers: {
    class: "wait",
    summary: (s) => `Wait for the clients of ${s.from} to go, then end its API servers gracefully`,
    limits: { attemptMs: 8 * 24 * 60 * MINUTE_MS, totalMs: 9 * 24 * 60 * MINUTE_MS },
  },
  restartSourceApiServers: {
    class: "wait",
    summary: (s) => `Undo: start the API servers of ${s.from} again`,
  },
  // Not of the class `cutover`: users wait for nothing here, and two etcds take their time.
  commitQuorum: {
    class: "wait",
    summary: (s) =>
      `Prove all members equal, move the leaders to ${s.to}, replace the first member of ${s.from}`,
  },
  removeSourcePeers: { class: "wait", summary: (s) => `Remove the other members of ${s.from}` },
  finishBackups: { class: "wait", summary: "Hand the backups over" },
  cleanUpSource: {
    class: "wait",
    summary: (s) => `Restore the TTL, take the bridge away, delete the control plane's objects at ${s.from}`,
  },
};

const steps = (move: Pick<Move, "input">) => activitiesFor(move.input.dryRun, table, move.input.timeouts);

function subject({ move, controlPlane, from, to, claimed }: Move): ControlPlaneSubject {
  return { move, controlPlane, from, to, ...(claimed && { claimed }) };
}

function returning(move: Move) {
  return { ...subject(move), ...(move.onlyStopped && { onlyStopped: true }) };
}

function stretched(move: Move): StretchedSubject {
  return { ...subject(move), layouts: move.layouts!, maxLagRevisions: move.input.maxLagRevisions };
}

const phases = [
  phase<Move>("ExposeSourcePeers", {
    summary:
      "Claim the control plane, make its etcd members reachable from the other seed, shorten the DNS record's TTL",
    run: async (move) => {
      await steps(move).claimControlPlane(subject(move));
      move.claimed = true;
      move.ttlLoweredAt = (
        await steps(move).setRecordTtl({ ...subject(move), record: sourceRecord(move) })
      ).at;
      move.layouts = await steps(move).exposeSourcePeers(subject(move));
    },
    undo: async (move) => {
      await steps(move).hideSourcePeers(subject(move));
      await steps(move).restoreRecordTtl({ ...subject(move), record: move.record });
      // From here on it may be gone.
      delete move.claimed;
      await steps(move).releaseControlPlane(subject(move));
    },
  }),
  phase<Move>("CopySecrets", {
    summary: "Copy Secrets and all other objects, workloads with no replicas",
    run: async (move) => {
      move.carriedOver = await steps(move).copySecrets(subject(move));
      move.layouts = await steps(move).exposeDestinationPeers(stretched(move));
    },
    undo: async (move) => {
      // For good, before what they know is deleted.
      if (move.handingOver) await steps(move).returnControllers(returning(move));
      await steps(move).clearDestinationSeed(subject(move));
    },
  }),
  phase<Move>("JoinDestinationPeers", {
    summary: "Stretch each etcd over both seeds: two members vote, the third stays a learner",
    run: async (move) => {
      const { etcds, input } = move;
      const { maxRoundTripMs } = input;
      move.joined = await steps(move).joinDestinationPeers({ ...stretched(move), maxRoundTripMs, etcds });
    },
    undo: async (move) => await steps(move).removeDestinationPeers(stretched(move)),
  }),
  phase<Move>("StartDestinationKubeAPIServer", {
    summary: "Serve the same data from the destination too",
    run: async (move) => {
      move.destinationValues = (await steps(move).startDestinationApiServers(subject(move))).values;
    },
    undo: async (move) => await steps(move).stopDestinationApiServers(subject(move)),
  }),
  phase<Move>("BridgeVPN", {
    summary: "Give each side's API servers a tunnel that stays wherever the name points",
    when: ({ vpn }) => vpn,
    run: async (move) => {
      move.bridged = patched("bridge-both-sides") ? ["source", "destination"] : ["destination"];
      for (const side of move.bridged) await steps(move).bridgeVpn({ ...subject(move), side });
    },
    undo: async (move) => {
      for (const side of move.bridged!.toReversed())
        await steps(move).dismantleVpnBridge({ ...subject(move), side, unlessLost: true });
    },
  }),
  phase<Move>("SwitchDNS", {
    summary: "Point the DNS record to the destination, and let clients follow as their caches run out",
    run: async (move) => {
      // Whoever cached the record with its old TTL has asked again by then.
      await wait(
        move,
        move.ttlLoweredAt! + move.record.ttlSeconds * 1000,
        "until the old TTL has run out everywhere",
      );
      move.switched = await steps(move).switchDns({
        ...subject(move),
        fromValues: move.record.values,
        toRecord: destinationRecord(move),
      });
      await wait(
        move,
        move.switched.switchedAt + switchTtl(move) * 1000,
        "until caches have the new address",
      );
    },
    undo: async (move) => {
      const { switchedAt } = await steps(move).switchDnsBack({
        ...subject(move),
        fromValues: move.destinationValues!,
        toRecord: sourceRecord(move),
      });
      await wait(move, switchedAt + switchTtl(move) * 1000, "until caches have the old address again");
      if (!move.vpn) return;
      await steps(move).moveVpnClients({ ...subject(move), towards: "source", unlessLost: true });
      await steps(move).dismantleVpnBridge({ ...subject(move), side: "source", unlessLost: true });
    },
  }),
  phase<Move>("Soak", {
    summary: "Watch both seeds serve together",
    run: async (move) => {
      move.soaked = await steps(move).soak({ ...stretched(move), soakMs: move.input.soakMs });
    },
  }),
  phase<Move>("HandOverControllers", {
    summary: "Stop the source's controllers, prove it, copy what they have renewed, start the destination's",
    run: async (move) => {
      let after: SourceStopped | undefined;
      if (patched("copies-again-and-returns-later")) {
        move.handingOver = true;
        // What the source's controllers have renewed since, for example tokens: most of it while they still run.
        move.carriedOver = await steps(move).copySecrets(subject(move));
      }
      if (patched("copies-what-is-renewed-last")) {
        move.onlyStopped = true;
        after = await steps(move).stopSourceControllers(subject(move));
        move.carriedOver = await steps(move).copySecrets(subject(move));
        delete move.onlyStopped;
      }
      move.handedOver = await steps(move).handOverControllers({ ...subject(move), ...(after && { after }) });
    },
    undo: async (move) =>
      await steps(move).returnControllers({ ...returning(move), unlessLost: move.handingOver === true }),
  }),
  phase<Move>("DrainSourceKubeAPIServer", {
    summary: "Wait for the source's last clients, then end its API servers gracefully",
    run: async (move) => {
      await wait(
        move,
        move.switched!.switchedAt + 2 * move.record.ttlSeconds * 1000,
        "until two old TTLs have passed since the switch",
      );
      move.drained = await steps(move).drainSourceApiServers({
        ...subject(move),
        drainMs: move.input.drainMs,
      });
      // Only now: as long as the source's API servers serve anybody, they need their tunnel.
      if (move.vpn) await steps(move).moveVpnClients({ ...subject(move), towards: "destination" });
      if (move.bridged?.includes("source"))
        await steps(move).dismantleVpnBridge({ ...subject(move), side: "source" });
    },
    undo: async (move) => {
      await steps(move).restartSourceApiServers(subject(move));
      // The name still points to the destination, and so do the clients of the VPN.
      if (move.vpn) await steps(move).bridgeVpn({ ...subject(move), side: "source", unlessLost: true });
    },
  }),
  phase<Move>("CommitQuorum", {
    summary: "Prove equality, move the leaders, replace the first source member: no way back from here",
    pointOfNoReturn: true,
    // Between two attempts it can be aborted. If it is the destination that is lost nobody serves meanwhile, so after some
    // twenty minutes the move is undone.
    comeback: {
      on: ["NotCommitted"],
      to: "CommitQuorum",
      afterMs: MINUTE_MS,
      get atMost() {
        return patched("given-up-sooner") ? 10 : 1_000;
      },
    },
    run: async (move) => {
      move.committed = await steps(move).commitQuorum(stretched(move));
    },
  }),
  phase<Move>("RemoveSourcePeers", {
    summary: "Remove the remaining source members",
    run: async (move) => {
      move.voters = (await steps(move).removeSourcePeers(stretched(move))).voters;
    },
  }),
  phase<Move>("FinishBackups", {
    summary: "Hand the backups over",
    run: async (move) => await steps(move).finishBackups(subject(move)),
  }),
  phase<Move>("CleanUpSource", {
    summary: "Restore the TTL and delete what is left at the source",
    run: async (move) => {
      // A step that gave back its own claim could not be repeated.
      const keepsClaim = patched("release-apart");
      move.leftInPlace ??= await steps(move).cleanUpSource({
        ...stretched(move),
        record: { values: move.destinationValues!, ttlSeconds: move.record.ttlSeconds },
        ...(keepsClaim && { keepsClaim }),
      });
      if (keepsClaim) await steps(move).releaseControlPlane(subject(move));
    },
  }),
];

/** The record while the move runs, with its short TTL. */
function sourceRecord(move: Move): DnsRecordState {
  return { values: move.record.values, ttlSeconds: switchTtl(move) };
}

function destinationRecord(move: Move): DnsRecordState {
  return { values: move.destinationValues!, ttlSeconds: switchTtl(move) };
}

/** The TTL while the move runs, in seconds. */
function switchTtl({ record, input }: Move): number {
  return Math.min(input.switchTtlSeconds, record.ttlSeconds);
}

/** Waits for a moment, in ms since the epoch; not at all in a dry run. */
async function wait({ input }: Move, until: number, why: string): Promise<void> {
  const ms = until - Date.now();
  if (!input.dryRun && ms > 0) await sleep(ms, { summary: `Wait ${why}` });
}

async function preflight(raw: unknown): Promise<Admitted<Move>> {
  const admission = await activitiesFor(false, table).preflightControlPlane(raw);
  const { input, controlPlane, from, to, dnsName } = admission;
  return {
    context: { ...admission, move: `${workflowInfo().workflowId} ${uuid4()}` },
    gates: input.gates,
    dryRun: input.dryRun,
    subject: `${controlPlane} (${dnsName})`,
    source: from,
    destination: to,
  };
}

function report(move: Move, timeline: Timeline): ControlPlaneReport {
  const {
    input,
    controlPlane,
    from,
    to,
    etcds,
    carriedOver,
    joined,
    soaked,
    handedOver,
    drained,
    committed,
    voters,
  } = move;
  return {
    kind: "controlPlaneMigration",
    controlPlane,
    from,
    to,
    dryRun: input.dryRun,
    verified: !input.dryRun && committed?.proofs.length === etcds.length,
    etcds: etcds.map((known) => move.layouts?.find(({ name }) => name === known.name)?.found ?? known),
    phases: timeline.steps.map(({ name, ms }) => ({ name, ms: ms ?? 0 })),
    ...(carriedOver && { carriedOver }),
    ...(joined && { roundTripMs: joined.roundTripMs }),
    ...(soaked && { soaked }),
    ...(handedOver && { handedOver }),
    ...(drained && { drained }),
    ...(committed && { committed }),
    ...(voters && { voters }),
    leftInPlace: move.leftInPlace ?? [],
  };
}

/** What a dry run tells: all that was found by reading. */
function plan(move: Move, timeline: Timeline): ControlPlaneReport {
  const { etcds, input, controlPlane, from, to } = move;
  const { phases: planned } = report(move, timeline);
  return {
    kind: "controlPlaneMigration",
    controlPlane,
    from,
    to,
    dryRun: input.dryRun,
    verified: false,
    etcds,
    phases: planned,
    leftInPlace: [],
  };
}

/** Moves one hosted control plane from seed to seed while it is in use. Input: inputs/control-plane-migration.ts. */
export async function controlPlaneMigration(
  raw: unknown,
  carried?: Carried<Move>,
): Promise<ControlPlaneReport> {
  return await runMigration({ kind: "controlPlaneMigration", phases, preflight, report, plan }, raw, carried);
}
