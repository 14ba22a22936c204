import { patched, sleep, uuid4, workflowInfo } from "@temporalio/workflow";
import type {
  Admission,
  Alignment,
  Cleaned,
  Copied,
  Finished,
  LogicalClusterActivities,
  MoveReport,
  Routed,
  Subject,
  Switched,
  Verified,
} from "../activities/logical-cluster/types.ts";
import type { Admitted, Carried } from "./engine/definition.ts";
import { failure } from "./engine/failures.ts";
import { phase } from "./engine/phase.ts";
import { activitiesFor } from "./engine/retries.ts";
import type { StepTable } from "./engine/retries.ts";
import { runMigration } from "./engine/run.ts";
import type { Timeline } from "./engine/timeline.ts";

/** What the phases know; everything here survives continuing as new. */
interface Move extends Admission {
  readonly move: string;
  verifiedAt?: number;
  /** All gates before the Cutover are open. */
  cutoverTried?: boolean;
  alignment?: Alignment;
  copied?: Copied;
  verification?: Verified;
  /** Revision of the origin before the first fence. */
  fencedSince?: string;
  switched?: Switched;
  routed?: Routed;
  cleaned?: Cleaned;
  finished?: Finished;
}

const table: StepTable<LogicalClusterActivities> = {
  preflight: {
    class: "read",
    summary: "Check input, shards, stores and the cluster; change nothing",
    // Longer than it takes to find that a store or two do not answer: the refusal must be able to name them.
    limits: { attemptMs: 2 * 60_000, heartbeatMs: 15_000 },
  },
  lock: {
    class: "mutate",
    summary: (s) => `Take the lock of ${s.cluster} in the etcd of ${s.from} and ${s.to}`,
  },
  alignRevisions: {
    class: "transfer",
    summary: (s) => `Raise the revision of ${s.to} above that of ${s.from}`,
  },
  copySnapshot: { class: "transfer", summary: (s) => `Copy ${s.cluster} from ${s.from} to ${s.to}` },
  catchUp: { class: "transfer", summary: "Carry over what has changed since, until hardly any lag is left" },
  follow: { class: "follow", summary: "Keep carrying over changes until the cutover" },
  verify: { class: "transfer", summary: "Prove both sides equal, key by key, while the cluster is in use" },
  takeTurn: {
    class: "wait",
    summary: (s) => `Wait for the turn to go from ${s.from} to ${s.to}`,
    // As long as moves of others take, and persons whom these wait for. Each attempt is one look, and says whose turn it is.
    limits: { totalMs: 30 * 24 * 60 * 60_000 },
  },
  prepareFence: { class: "mutate", summary: (s) => `Make the ${s.fence} fence ready` },
  cutover: {
    class: "cutover",
    summary: (s) => `Fence ${s.from}, carry over the last changes, switch to ${s.to}`,
  },
  awaitRouting: {
    class: "wait",
    summary: (s) =>
      `Wait until every front-proxy serves from ${s.to}, and ${s.fence === "inactive" ? `a minute more, until all watch ${s.from} again` : `delete the cluster's object at ${s.from}`}`,
  },
  cleanOrigin: { class: "transfer", summary: (s) => `Delete the cluster's keys at ${s.from}` },
  finalize: { class: "wait", summary: "Take the fence and the locks away, check path and id" },
  dismantleFence: { class: "mutate", summary: (s) => `Undo: make ${s.from} serve again` },
  clearDestination: { class: "transfer", summary: (s) => `Undo: delete at ${s.to} what was copied` },
  // After a reset it has more to undo than the history knows of, which may be much.
  unlock: { class: "wait", summary: "Undo: give the lock back" },
};

/** Of moves that began before the activity judged it. */
const VERIFICATION_AGE_MS = 2 * 60_000;

const REPAIRS = 6;
const REPAIR_AFTER_MS = 3_000;

/** What a cutover does before the fence is up, a quarter of a minute of it for others' deletions, and after it has taken the fence off again. */
const AROUND_FENCE_MS = 90_000;

function steps({ input }: Pick<Move, "input">): LogicalClusterActivities {
  // The fence must come off by its own budget and not by the end of the attempt, which nobody would count.
  const cutover = { attemptMs: input.fenceBudgetMs + AROUND_FENCE_MS, ...input.timeouts["cutover"] };
  return activitiesFor(input.dryRun, table, { ...input.timeouts, cutover });
}

function subject(move: Move): Subject {
  const { cluster, from, to, fence, input } = move;
  return { move: move.move, cluster, from, to, fence, revisions: input.revisions };
}

/** A move that is to wait for a person has no turn meanwhile: its first cutover leads back where it needs one. */
function needsTurn({ input: { gates }, cutoverTried }: Move): boolean {
  return cutoverTried || !(gates.includes("Verify") || gates.includes("Cutover"));
}

const phases = [
  phase<Move>("AlignRevisions", {
    summary: "Lock the cluster and raise the destination's revision above the origin's",
    run: async (move) => {
      await steps(move).lock(subject(move));
      move.alignment = await steps(move).alignRevisions({
        ...subject(move),
        revisions: move.input.revisions,
      });
    },
    undo: async (move) => await steps(move).unlock(subject(move)),
  }),
  phase<Move>("CopySnapshot", {
    summary: "Copy the cluster while it is in use",
    run: async (move) => {
      move.copied = await steps(move).copySnapshot(subject(move));
    },
    undo: async (move) => await steps(move).clearDestination(subject(move)),
  }),
  phase<Move>("Tail", {
    summary: "Carry changes over until hardly any lag is left",
    run: async (move) => {
      if (needsTurn(move) && patched("turns")) {
        await steps(move).takeTurn(subject(move));
      }
      await steps(move).catchUp(subject(move));
    },
  }),
  phase<Move>("Verify", {
    summary: "Prove both sides equal while the cluster is in use, and make the fence ready",
    run: async (move) => {
      await verify(move);
      await steps(move).prepareFence(subject(move));
    },
    undo: async (move) => await steps(move).dismantleFence(subject(move)),
  }),
  phase<Move>("Cutover", {
    summary: "Fence, carry over the last changes, check, switch",
    pointOfNoReturn: true,
    comeback: { on: ["FenceBudgetExceeded", "NotVerified"], to: "Tail", afterMs: 2_000, atMost: 10 },
    run: async (move) => {
      const ageMs = Date.now() - move.verifiedAt!;
      // The activity judges it, after it has looked whether the switch is done already: as after a reset.
      if (!patched("proof-age-in-cutover") && ageMs > VERIFICATION_AGE_MS) {
        throw failure(
          "NotVerified",
          `the proof is ${Math.round(ageMs / 1000)} s old: both sides are proven equal again`,
        );
      }
      move.cutoverTried = true;
      // No fence is set on an old proof.
      if (ageMs <= VERIFICATION_AGE_MS) move.fencedSince ??= move.verification!.position;
      move.switched = await steps(move).cutover({
        ...subject(move),
        fenceBudgetMs: move.input.fenceBudgetMs,
        verifiedAt: move.verification!.position,
        verifiedAtDestination: move.verification!.destinationRevision,
        provenAt: move.verifiedAt!,
      });
    },
  }),
  phase<Move>("AwaitRouting", {
    summary: "Wait until every front-proxy serves from the destination",
    pausable: false,
    run: async (move) => {
      move.routed = await steps(move).awaitRouting({
        ...subject(move),
        position: move.switched!.position,
        fencedSince: move.fencedSince,
      });
    },
  }),
  phase<Move>("OriginCleanup", {
    summary: "Delete the cluster's keys at the origin",
    run: async (move) => {
      const { position } = move.switched!;
      move.cleaned = await steps(move).cleanOrigin({ ...subject(move), position });
    },
  }),
  phase<Move>("Finalize", {
    summary: "Take fence and locks away, check path and id",
    run: async (move) => {
      const { path, cleaned } = move;
      const kept = cleaned?.conflicts.map(({ key }) => key);
      move.finished = await steps(move).finalize({ ...subject(move), path, kept });
    },
  }),
];

/**
 * Differences are repaired by copying again over what is there; after that a full pass must be clean. More than once,
 * because a namespace that is being deleted is emptied at both shards, and one may be some seconds ahead of the other.
 */
async function verify(move: Move): Promise<void> {
  let verified = await steps(move).verify(subject(move));
  const repairs = verified.unequal > 0 && patched("repeated-repairs") ? REPAIRS : 1;
  for (let repair = 1; verified.unequal > 0 && repair <= repairs; repair++) {
    if (repair > 1) await sleep(REPAIR_AFTER_MS);
    await steps(move).copySnapshot(subject(move));
    await steps(move).catchUp(subject(move));
    verified = await steps(move).verify(subject(move));
  }
  if (verified.unequal > 0) {
    throw failure("NotVerified", {
      message: `${verified.unequal} keys of ${move.cluster} differ between ${move.from} and ${move.to}, also after ${repairs === 1 ? "a repair" : `${repairs} repairs`}`,
      found: verified.samples.join("; "),
      advice: "look at what writes to the destination, then start the move again",
    });
  }
  move.verification = verified;
  move.verifiedAt = Date.now();
}

async function preflight(raw: unknown): Promise<Admitted<Move>> {
  const admission = await activitiesFor(false, table).preflight(raw);
  const { input, path, cluster, from, to } = admission;
  return {
    context: { ...admission, move: `${workflowInfo().workflowId} ${uuid4()}` },
    gates: input.gates,
    dryRun: input.dryRun,
    subject: `${path} (${cluster})`,
    source: from,
    destination: to,
  };
}

function report(move: Move, timeline: Timeline): MoveReport {
  const {
    input,
    cluster,
    path,
    from,
    to,
    fence,
    warnings,
    alignment,
    copied,
    verification,
    switched,
    cleaned,
  } = move;
  return {
    kind: "logicalClusterMigration",
    cluster,
    path,
    from,
    to,
    fence,
    warnings,
    dryRun: input.dryRun,
    verified: verification?.unequal === 0,
    keys: verification?.keys ?? move.keys,
    bytes: verification?.bytes ?? 0,
    ...(switched && move.routed && { outage: outage(switched, move.routed) }),
    phases: timeline.steps.map(({ name, ms }) => ({
      name,
      ms: ms ?? 0,
    })),
    ...(alignment && { alignment }),
    ...(copied && { copied }),
    ...(verification && { verification }),
    ...(switched && { switched }),
    ...(cleaned && { cleaned }),
    leftInPlace: [...(move.routed?.leftInPlace ?? []), ...(move.finished?.leftInPlace ?? [])],
  };
}

/** What a dry run tells: all that was found by reading, and nothing of what did not happen. */
function plan(move: Move, timeline: Timeline): MoveReport {
  const { verification: _v, switched: _s, cleaned: _c, outage: _o, ...found } = report(move, timeline);
  return {
    ...found,
    verified: false,
    keys: move.keys,
    bytes: move.copied?.bytes ?? 0,
    families: move.families,
  };
}

function outage(switched: Switched, routed: Routed): NonNullable<MoveReport["outage"]> {
  const { fenceAt, fencedAt, cutAt = fencedAt, earlierFences: earlier = [] } = switched;
  return {
    totalMs: routed.routedAt - fenceAt,
    fencingMs: fencedAt - fenceAt,
    cutMs: cutAt - fencedAt,
    drainMs: switched.drainedAt - cutAt,
    checkMs: switched.checkedAt - switched.drainedAt,
    switchMs: switched.switchedAt - switched.checkedAt,
    routingMs: routed.routedAt - switched.switchedAt,
    ...(earlier.length > 0 && {
      earlier: {
        fences: earlier.length,
        ms: earlier.reduce((sum, { from, until }) => sum + until - from, 0),
      },
    }),
  };
}

/** Moves one kcp logical cluster from shard to shard while it is in use. Input: inputs/logical-cluster-migration.ts. */
export async function logicalClusterMigration(raw: unknown, carried?: Carried<Move>): Promise<MoveReport> {
  return await runMigration(
    {
      kind: "logicalClusterMigration",
      phases,
      background: {
        summary: "Changes are carried over",
        from: "Verify",
        until: "Cutover",
        run: async (move: Move) => await steps(move).follow(subject(move)),
      },
      preflight,
      report,
      plan,
    },
    raw,
    carried,
  );
}
