import { setTimeout as delay } from "node:timers/promises";
import type { Pace } from "../../etcd/pace.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { clusterPath } from "../../kubernetes/kcp/logical-cluster.ts";
import type { Shard } from "../../sites/kcp.ts";

const LISTEN_EVERY_MS = 100;
/** Long enough to be slow. */
const TIMEOUT_MS = 2_000;
/** A list that is answered from the cache once that is as new as the store, as clients' lists are, and that is short. */
const path = clusterPath("*", "/api/v1/namespaces?limit=1");

/**
 * Runs what writes many keys to a shard's store, and keeps it to a pace at which the shard's API server serves its own
 * tenants quickly. That server reads every key for its caches, and is busy long before its store is: measured were 359 ms
 * for a tenant's request where the store answered within 20.
 */
export async function heeding<T>(shard: Shard, pace: Pace, run: () => Promise<T>): Promise<T> {
  const over = new AbortController();
  pace.heed(await longestWait(shard.replicas, over.signal));
  const listening = listen(shard.replicas, pace, over.signal);
  try {
    return await run();
  } finally {
    over.abort();
    await listening;
    pace.heedNobody();
  }
}

async function listen(replicas: readonly ApiServer[], pace: Pace, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await delay(LISTEN_EVERY_MS, undefined, { signal }).catch(() => undefined);
    const ms = await longestWait(replicas, signal);
    if (!signal.aborted) pace.heed(ms);
  }
}

async function longestWait(replicas: readonly ApiServer[], signal: AbortSignal): Promise<number> {
  return Math.max(...(await Promise.all(replicas.map(async (replica) => await waitAt(replica, signal)))));
}

/**
 * @returns ms until there was an answer of any kind, or none in time: nobody waits for a replica that refuses connections,
 * and where it refuses requests, they do not wait either.
 */
async function waitAt(replica: ApiServer, signal: AbortSignal): Promise<number> {
  const begun = performance.now();
  await replica.request({ path, timeoutMs: TIMEOUT_MS, signal }).catch(() => undefined);
  return performance.now() - begun;
}
