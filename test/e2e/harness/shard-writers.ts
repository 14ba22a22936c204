import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { loadConfig } from "../../../sites/config.ts";
import { SHARDS } from "./bed.ts";
import type { Bed, ShardName } from "./bed.ts";
import { CONFIG_MAPS, Objects, configMap } from "./objects.ts";
import { serverAs } from "./robot.ts";
import type { Tenant } from "./tenant.ts";

interface Taken {
  readonly name: string;
  /** When the answer was there. */
  readonly at: number;
}

export interface ShardWriters {
  /** Stops them, and expects that the second shard took nothing before the first took no more, and that all is kept. */
  expectOneAfterTheOther(first: ShardName, second: ShardName): Promise<void>;
}

/** Clients that write a tenant's objects to each shard's own API server, past the front-proxy. */
export function writeToBothShards(bed: Bed, { cluster, objects }: Tenant, token: string): ShardWriters {
  const stop = new AbortController();
  const writing = SHARDS.map(
    async (shard) => [shard, await writeTo(bed, shard, { cluster, token, stop: stop.signal })] as const,
  );
  return {
    async expectOneAfterTheOther(first, second) {
      stop.abort();
      const taken = Object.fromEntries(await Promise.all(writing)) as Record<ShardName, Taken[]>;
      const [before, after] = [taken[first], taken[second]];
      expect(before.length).toBeGreaterThan(10);
      expect(after.length).toBeGreaterThan(10);
      expect(before.at(-1)!.at).toBeLessThan(after[0]!.at);
      const { items } = await objects.list(CONFIG_MAPS);
      const served = new Set(items.map(({ metadata }) => metadata.name));
      expect([...before, ...after].filter(({ name }) => !served.has(name))).toEqual([]);
    },
  };
}

/** Short beside a fence, and long enough to leave the machine to the move. */
const PAUSE_MS = 5;
let writers = 0;

async function writeTo(
  bed: Bed,
  shard: ShardName,
  { cluster, token, stop }: { cluster: string; token: string; stop: AbortSignal },
): Promise<Taken[]> {
  const { kubeconfig, context } = loadConfig(bed.testbed.rehomeConfig).kcp!.shards[shard]!;
  const server = await serverAs(token, {
    kubeconfig: kubeconfig!,
    context,
    server: bed.shards[shard].api.url,
  });
  const path = new Objects(server, cluster).path(CONFIG_MAPS);
  const writer = `by-${shard}-${++writers}`;
  const taken: Taken[] = [];
  for (let turn = 0; !stop.aborted; turn++) {
    const name = `${writer}-${turn}`;
    // The fence cuts connections; what became of such a write nobody was told.
    const answer = server.request({ method: "POST", path, body: configMap(name, {}) });
    const status = await answer.then(
      (told) => told.status,
      () => undefined,
    );
    if (status === 201) taken.push({ name, at: performance.now() });
    await delay(PAUSE_MS);
  }
  return taken;
}
