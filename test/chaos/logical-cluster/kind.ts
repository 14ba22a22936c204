import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { displayKey } from "../../../etcd/keys.ts";
import type { MoveReport } from "../../../activities/logical-cluster/types.ts";
import { LOGICAL_CLUSTER_PHASES } from "../../../inputs/logical-cluster-migration.ts";
import { Clients } from "../../../testbed/workload/clients.ts";
import { fenceOf } from "../../../testbed/workload/fence.ts";
import { conclude } from "../../../testbed/workload/result.ts";
import type { ClientsResult } from "../../../testbed/workload/result.ts";
import { TASK_QUEUE } from "../../../workflows/engine/names.ts";
import { PREFLIGHT } from "../../../workflows/engine/state.ts";
import { tracesOf } from "../../e2e/harness/aftermath.ts";
import { other } from "../../e2e/harness/bed.ts";
import { FenceLog } from "../../e2e/harness/fence-log.ts";
import type { Span } from "../../e2e/harness/fence-log.ts";
import { carriedOver, ofBystanders } from "../../e2e/harness/keys.ts";
import { IMPATIENT } from "../../e2e/harness/moves.ts";
import type { Kind, Round } from "../kind.ts";
import { ChaosBed } from "./bed.ts";
import { faults } from "./faults.ts";

/** Which fence moves take. Clients do not retry what `inactive` answers, so failed requests are not looked at with it. */
const { REHOME_CHAOS_FENCE: fence = "migration" } = process.env;
const REQUESTS_PER_SECOND = 40;
/** Where a fault may also strike a move that waits: all is copied; has just been switched; the origin is still to be cleaned. */
const GATES: ReadonlySet<string> = new Set(["Cutover", "AwaitRouting", "OriginCleanup"]);
/** Clients that nobody disturbs, before and after. */
const AROUND_MS = 500;

export const logicalCluster: Kind<ChaosBed> = {
  name: "logical-cluster",
  stages: [PREFLIGHT, ...LOGICAL_CLUSTER_PHASES].flatMap((phase) =>
    GATES.has(phase) ? [{ phase, atGate: true }, { phase }] : [{ phase }],
  ),
  faults,
  open: async () => await ChaosBed.open(),
  begin,
};

async function begin(bed: ChaosBed): Promise<Round> {
  const { workspace, filling } = bed.workload;
  const { cluster } = workspace;
  // What clients before these have left is in it too.
  const resting = await carriedOver(bed.store(bed.shard), cluster);
  const beside = await ofBystanders(bed, bed.bystanders);
  if (resting.size < filling.objects.length) throw new Error(`only ${resting.size} keys of ${cluster}`);
  const fences = await FenceLog.start(bed.store("root"));
  const from = Date.now();
  const clients = await Clients.start({
    kubeconfig: bed.testbed.kcp.frontProxy.kubeconfig,
    workspace,
    requestsPerSecond: REQUESTS_PER_SECOND,
    namespace: `clients-${randomBytes(4).toString("hex")}`,
  });
  await delay(AROUND_MS);
  return {
    async start(gates) {
      const input = {
        logicalCluster: workspace.path,
        to: other(bed.shard),
        fence,
        timeouts: IMPATIENT,
        gates,
      };
      return await bed.client.workflow.start("logicalClusterMigration", {
        taskQueue: TASK_QUEUE,
        workflowId: `chaos-${randomUUID()}`,
        args: [input],
      });
    },
    async conclude(report, hidden) {
      const move = report as MoveReport | undefined;
      if (move !== undefined) bed.shard = other(bed.shard);
      await delay(AROUND_MS);
      const result = await conclude(clients, workspace, move && fenceOf(move));
      await using seen = fences;
      // One that came back, or was given up, has cut off what was under way, as the last one does.
      const earlier = () => seen.spans(cluster, { from, until: move?.switched?.fenceAt ?? Date.now() });
      const broken = [
        ...brokenPromises(result),
        ...(hidden && fence === "migration" ? unexplained(result, earlier()) : []),
        ...(move === undefined ? [] : defectsOf(move)),
        ...(await tracesOf(bed, cluster, bed.shard)).map((trace) => `left behind: ${trace}`),
        ...unlike(resting.keys(), resting, await carriedOver(bed.store(bed.shard), cluster)),
        ...(await touchedBeside(bed, beside)),
      ];
      const longestGapMs = Math.max(result.longestGapMs, result.longestCustomResourceGapMs);
      return { broken, longestGapMs };
    },
  };
}

/** Requests that failed, but for those that an earlier fence than the reported one cut off. */
function unexplained({ failedCalls }: ClientsResult, earlier: readonly Span[]): string[] {
  return failedCalls
    .filter(
      ({ startedAt, endedAt }) => !earlier.some(({ from, until }) => startedAt <= until && endedAt >= from),
    )
    .map(({ words }) => `failed: ${words}`);
}

async function touchedBeside(bed: ChaosBed, before: ReadonlyMap<string, string>): Promise<string[]> {
  const after = await ofBystanders(bed, bed.bystanders);
  return unlike(new Set([...before.keys(), ...after.keys()]), before, after);
}

/** Which of these keys are not as they were, and how. */
function unlike(
  keys: Iterable<string>,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string[] {
  return [...keys]
    .filter((key) => before.get(key) !== after.get(key))
    .map(
      (key) => `not as it was: ${displayKey(key)}: ${shown(before.get(key))}, now ${shown(after.get(key))}`,
    );
}

function shown(value = "absent"): string {
  return value.slice(0, 2_000);
}

function brokenPromises(result: ClientsResult): string[] {
  const missed = result.watches.flatMap(({ watch, missedExamples }) =>
    missedExamples.map((one) => `missed by ${watch}: ${one}`),
  );
  const { lostExamples, staleReads, resourceVersionRegressions: regressions } = result;
  return [
    ...lostExamples.map(({ key, expected, found }) => `lost: ${key}: ${expected}, found ${found}`),
    ...(result.missedEvents === 0 ? [] : missed),
    ...(staleReads === 0 ? [] : [`${staleReads} stale reads`]),
    ...(regressions === 0 ? [] : [`${regressions} resourceVersions went back`]),
  ];
}

function defectsOf({ verified, cleaned }: MoveReport): string[] {
  return [
    ...(verified ? [] : ["the move was not verified"]),
    ...(cleaned?.conflicts ?? []).map((conflict) => `conflict: ${JSON.stringify(conflict)}`),
  ];
}
