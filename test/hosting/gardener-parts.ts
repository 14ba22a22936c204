import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Claim } from "../../hosting/claim.ts";
import type { Bootstrap, Hosting, MemberAddress } from "../../hosting/types.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { loadSites } from "../../sites/sites.ts";
import { startGardenerBed } from "../../testbed/gardener/bed.ts";
import type { GardenerBed } from "../../testbed/gardener/bed.ts";
import { writeGardenerConfig } from "../../testbed/gardener/describe.ts";
import { demo } from "../../testbed/gardener/garden-objects.ts";

export const etcds = ["etcd-main", "etcd-events"] as const;

export function newDir(): string {
  return mkdtempSync(join(tmpdir(), "rehome-gardener-"));
}

export async function startBed(): Promise<GardenerBed> {
  return await startGardenerBed(newDir());
}

let files = 0;

/** As a worker gets it: the configuration chooses it, and the sites build it. */
export function hostingOf(
  bed: GardenerBed,
  more: Readonly<Record<string, unknown>> = {},
  claim: Claim = { move: "move-1", epoch: 1 },
): Hosting {
  const { kubeconfigs, dir } = bed;
  const fields = { vpn: {}, deadlineMs: 60_000, ...more };
  const described = { kubeconfigs, kubeconfig: kubeconfigs.core, fields };
  const file = writeGardenerConfig(join(dir, `rehome-${++files}.yaml`), described);
  return loadSites(file).controlPlanes.controlPlane(demo.shoot, demo.seeds, claim).hosting;
}

/** What etcd's member list would say: the source's members, then the destination's that have joined. */
export function bootstrapOf(
  source: readonly MemberAddress[],
  destination: readonly MemberAddress[],
  ordinal: number,
): Bootstrap {
  const own = destination[ordinal]!;
  const joined = destination
    .slice(0, ordinal + 1)
    .map(({ pod, peerUrl }) => `${demo.seeds.destination}-${pod}=${peerUrl}`);
  return {
    name: `${demo.seeds.destination}-${own.pod}`,
    peerUrl: own.peerUrl,
    initialCluster: [...source.map(({ pod, peerUrl }) => `${pod}=${peerUrl}`), ...joined],
  };
}

export interface Seen<T> {
  readonly seed: string;
  readonly type: string;
  readonly object: T;
}

/** Writes down every change of a collection, in order, until it is told to stop. */
export function recordChanges<T extends KubeObject>(
  seeds: readonly ApiServer[],
  path: string,
): { readonly seen: Seen<T>[]; stop(): Promise<void> } {
  const stop = new AbortController();
  const seen: Seen<T>[] = [];
  const loops = seeds.map(async (api) => {
    while (!stop.signal.aborted) {
      try {
        for await (const line of api.lines({
          path: `${path}?watch=1&allowWatchBookmarks=false`,
          signal: stop.signal,
        }))
          seen.push({ seed: api.name, ...(JSON.parse(line) as { type: string; object: T }) });
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    }
  });
  return {
    seen,
    async stop() {
      stop.abort();
      await Promise.allSettled(loops);
    },
  };
}

/** Runs a step again after it is done: it must change nothing and say the same. */
export async function twice<T>(step: () => Promise<T>): Promise<readonly [T, T]> {
  return [await step(), await step()];
}

export function limit(): AbortSignal {
  return AbortSignal.timeout(90_000);
}
