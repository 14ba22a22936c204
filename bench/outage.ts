import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Clients } from "../testbed/workload/clients.ts";
import { verbs } from "../testbed/workload/account.ts";
import type { Account, GapOf, Verb, Window } from "../testbed/workload/account.ts";
import { now } from "../testbed/workload/caller.ts";
import { fenceOf } from "../testbed/workload/fence.ts";
import { longestGap } from "../testbed/workload/gaps.ts";
import { configMaps, widgets } from "../testbed/workload/resources.ts";
import { inTurns, tell } from "./bench.ts";
import type { Bench, Round } from "./bench.ts";
import type { Sample } from "./results.ts";
import { bindMigrationApi, makeWorkspace, moveWithKcp, moveWithRehome, withScene } from "./scene.ts";
import type { Scene } from "./scene.ts";
import type { Workspace } from "../testbed/workspaces.ts";

/** Above it only rehome is measured: kcp's own migration refuses all requests for longer than clients try. */
const LARGEST_FOR_KCP = 20_000;
const AROUND_MS = 8_000;
/** A resource of a bound API is left out: after kcp's own migration it answers 404 for ever. */
const measured = [configMaps, widgets];
const resources: readonly string[] = measured.map(({ plural }) => plural);
const REQUESTS_PER_SECOND = 100;
/** Every verb of both resources equally often, for a gap has the interval of its requests as its grain. */
const even = {
  loads: measured.map((resource) => [resource, 1 / measured.length] as const),
  shares: { get: 0.2, list: 0.2, create: 0.2, update: 0.2, delete: 0.2 },
};

/** Moves a workspace. @returns from when until when requests were refused because of it, ms since the epoch */
type Move = (scene: Scene, workspace: Workspace) => Promise<Window>;

const systems: Readonly<Record<string, Move>> = {
  rehome: async (scene, workspace) => {
    const { report } = await moveWithRehome(scene, workspace);
    tell(`  of it by rehome's own account: ${JSON.stringify(report.outage)}`);
    const { askedAt, routedAt } = fenceOf(report)!;
    return { from: askedAt, to: routedAt };
  },
  "kcp's own migration": async (scene, workspace) => {
    const from = now();
    await moveWithKcp(scene, workspace);
    return { from, to: now() };
  },
};

/** What clients of a workspace notice when it moves, 100 requests a second, each system in servers of its own. */
export const outage: Bench = {
  about: "longest gap of each verb while a workspace moves",
  runs: 3,
  sizes: [1_000, 20_000, 100_000],
  round: async (round) => {
    const samples: Sample[] = [];
    for (const size of round.sizes) samples.push(...(await measure(round, size)));
    return samples;
  },
};

async function measure({ dir, number }: Round, size: number): Promise<Sample[]> {
  const names = size > LARGEST_FOR_KCP ? ["rehome"] : inTurns(Object.keys(systems), number);
  const samples: Sample[] = [];
  for (const [turn, system] of names.entries()) {
    const move = systems[system]!;
    const found = await withScene(
      join(dir, `${size}-${turn}`),
      async (scene) => await observe(scene, { system, move, size }),
    );
    samples.push(...found);
  }
  return samples;
}

async function observe(
  scene: Scene,
  { system, move, size }: { system: string; move: Move; size: number },
): Promise<Sample[]> {
  const workspace = await makeWorkspace(scene, { name: "team-a", objects: size });
  await bindMigrationApi(scene.frontProxy);
  const { kubeconfig } = scene.testbed.kcp.frontProxy;
  const clients = await Clients.start({
    kubeconfig,
    workspace,
    requestsPerSecond: REQUESTS_PER_SECOND,
    ...even,
  });
  await delay(AROUND_MS);
  const rest = clients.window;
  const begun = performance.now();
  const cut = await move(scene, workspace);
  const ms = Math.round(performance.now() - begun);
  await delay(AROUND_MS);
  await clients.stopRequests();
  const { account, window } = clients;
  await clients.stop();
  const byVerb = longestByVerb(account.gaps(window, cut));
  const silence = longestSilence(account, window, cut);
  tell(
    `${system}, ${size} objects: nobody served for ${silence} ms, longest gap of a verb ${longestOf(byVerb)} ms, the move took ${ms} ms`,
  );
  tell(`  the longest beside it: ${besideCut(account.gaps(window), cut)}`);
  const failed = account.failures(undefined).failed.filter(({ resource }) => resources.includes(resource));
  const of = (metric: string, unit: string, value: number): Sample => ({ system, size, metric, unit, value });
  return [
    of("no request served at the cut", "ms", silence),
    of("longest gap at the cut, any verb", "ms", longestOf(byVerb)),
    ...[...byVerb].map(([verb, gap]) => of(verb, "ms", gap)),
    of("longest gap in all the time", "ms", longestOf(longestByVerb(account.gaps(window)))),
    of("longest gap before the move", "ms", longestOf(longestByVerb(account.gaps(rest)))),
    of("failed", "requests", failed.length),
    of("the whole move", "s", Number((ms / 1000).toFixed(1))),
  ];
}

/** In words, for who looks for its cause. */
function besideCut(gaps: readonly GapOf[], cut: Window): string {
  const [gap] = gaps.filter(
    ({ resource, from, to }) => resources.includes(resource) && (to < cut.from || from > cut.to),
  );
  if (gap === undefined) return "none";
  const since = Math.round(gap.from - cut.from);
  return `${gap.verb} ${gap.resource}, ${Math.round(gap.ms)} ms, begun ${since} ms after the cut, which took ${Math.round(cut.to - cut.from)} ms`;
}

/** All verbs together: their requests come so close that it is the time in which nobody is served. */
function longestSilence({ attempts }: Account, window: Window, cut: Window): number {
  const served = attempts.filter(
    ({ resource, status }) => resources.includes(resource) && status >= 200 && status <= 299,
  );
  const times = served.map(({ endedAt }) => endedAt);
  return Math.round(longestGap(times, window.to, cut)?.ms ?? 0);
}

function longestOf(byVerb: ReadonlyMap<string, number>): number {
  return Math.max(0, ...byVerb.values());
}

/** Over the resources that both systems serve. */
function longestByVerb(gaps: readonly GapOf[]): Map<string, number> {
  const counted = gaps.filter(({ resource }) => resources.includes(resource));
  const longest = new Map<Verb, number>();
  for (const verb of verbs) {
    const ms = counted.filter((gap) => gap.verb === verb).map((gap) => gap.ms);
    if (ms.length > 0) longest.set(verb, Math.round(Math.max(...ms)));
  }
  return longest;
}
