import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Attempt, Window } from "../testbed/workload/account.ts";
import { now } from "../testbed/workload/caller.ts";
import { Clients } from "../testbed/workload/clients.ts";
import { createWorkload } from "../testbed/workload/workload.ts";
import type { Workspace } from "../testbed/workspaces.ts";
import type { MigrationState } from "../workflows/engine/state.ts";
import { inTurns, tell } from "./bench.ts";
import type { Bench, Round } from "./bench.ts";
import type { Sample } from "./results.ts";
import {
  DESTINATION,
  ORIGIN,
  bindMigrationApi,
  makeWorkspace,
  moveWithKcp,
  moveWithRehome,
  withScene,
} from "./scene.ts";
import type { Scene } from "./scene.ts";

const AROUND_MS = 15_000;
const REQUESTS_PER_SECOND = 50;
const neighbours = { "the origin's shard": ORIGIN, "the destination's shard": DESTINATION };

/** Moves a workspace. @returns when it did what, ms since the epoch */
type Move = (scene: Scene, workspace: Workspace) => Promise<Readonly<Record<string, Window>>>;

const systems: Readonly<Record<string, Move>> = {
  rehome: async (scene, workspace) => {
    const { workflowId } = await moveWithRehome(scene, workspace);
    const { steps } = await scene.client.workflow.getHandle(workflowId).query<MigrationState>("progress");
    const windowOf = (phase: string): Window => {
      const step = steps.find(({ name }) => name === phase);
      return { from: step?.startedAt ?? 0, to: step?.endedAt ?? 0 };
    };
    return { "during the copy": windowOf("CopySnapshot"), "during the cleanup": windowOf("OriginCleanup") };
  },
  "kcp's own migration": async (scene, workspace) => {
    const from = now();
    await moveWithKcp(scene, workspace);
    return { "during copy and cleanup": { from, to: now() } };
  },
};

/** How long requests of other tenants take while a workspace beside theirs moves. */
export const bystanders: Bench = {
  about: `request latency of tenants of both shards, ${REQUESTS_PER_SECOND} requests a second each`,
  runs: 3,
  sizes: [20_000],
  round: async (round) => {
    const samples: Sample[] = [];
    for (const size of round.sizes) samples.push(...(await measure(round, size)));
    return samples;
  },
};

async function measure({ dir, number }: Round, size: number): Promise<Sample[]> {
  const samples: Sample[] = [];
  for (const [turn, [name, move]] of inTurns(Object.entries(systems), number).entries()) {
    const observed = async (scene: Scene) => await observe(scene, { name, move, size });
    samples.push(...(await withScene(join(dir, `${size}-${turn}`), observed)));
  }
  return samples;
}

async function observe(
  scene: Scene,
  { name, move, size }: { name: string; move: Move; size: number },
): Promise<Sample[]> {
  const workspace = await makeWorkspace(scene, { name: "team-a", objects: size });
  await bindMigrationApi(scene.frontProxy);
  const tenants = await Promise.all(
    Object.entries(neighbours).map(async ([place, shard], index) => ({
      place,
      clients: await startTenant(scene, `neighbour-${index}`, shard),
    })),
  );
  await delay(AROUND_MS);
  const rest = { from: now() - AROUND_MS, to: now() };
  const windows = { "at rest": rest, ...(await move(scene, workspace)) };
  const samples: Sample[] = [];
  for (const { place, clients } of tenants) {
    await clients.stop();
    for (const [when, window] of Object.entries(windows)) {
      const system = `${name}: a tenant of ${place}, ${when}`;
      samples.push(...latencies(clients.account.attempts, window, { system, size }));
    }
  }
  return samples;
}

async function startTenant({ testbed }: Scene, name: string, shard: string): Promise<Clients> {
  const { kubeconfig } = testbed.kcp.frontProxy;
  const { workspace } = await createWorkload({ kubeconfig, name, shard, objects: 50 });
  return await Clients.start({ kubeconfig, workspace, requestsPerSecond: REQUESTS_PER_SECOND });
}

function latencies(
  attempts: readonly Attempt[],
  { from, to }: Window,
  { system, size }: { system: string; size: number },
): Sample[] {
  const times = attempts
    .filter(({ startedAt, status }) => startedAt >= from && startedAt <= to && status >= 200 && status < 300)
    .map(({ startedAt, endedAt }) => endedAt - startedAt)
    .toSorted((one, other) => one - other);
  if (times.length === 0) throw new Error(`${system}: no request was answered`);
  const refused = attempts.filter(
    ({ startedAt, status }) => startedAt >= from && startedAt <= to && (status === 0 || status >= 500),
  );
  const percentile = (share: number) => Number(times[Math.floor((times.length - 1) * share)]!.toFixed(1));
  tell(`${system}: p50 ${percentile(0.5)} ms, p99 ${percentile(0.99)} ms of ${times.length} requests`);
  return [
    { system, size, metric: "p50", unit: "ms", value: percentile(0.5) },
    { system, size, metric: "p99", unit: "ms", value: percentile(0.99) },
    { system, size, metric: "requests refused", unit: "requests", value: refused.length },
  ];
}
