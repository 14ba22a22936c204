import { setTimeout as delay } from "node:timers/promises";
import { CompactedError } from "../../etcd/errors.ts";
import { deletedOfOthers } from "../../etcd/history.ts";
import { displayKey, logicalClusterKey, parseKey } from "../../etcd/keys.ts";
import type { Key } from "../../etcd/keys.ts";
import { put, remove } from "../../etcd/store.ts";
import { pulse } from "../../etcd/tail.ts";
import { isLogicalCluster, isOneOf } from "../../kubernetes/kcp/families.ts";
import { logicalCluster, withHealing } from "../../kubernetes/kcp/logical-cluster.ts";
import { hasDeadContext } from "../../kubernetes/kcp/probe.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { LogicalClusterMigrationInput } from "../../inputs/logical-cluster-migration.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import type { Session } from "./session.ts";

/**
 * The longest pause of client-go's reflectors between two lists that fail (30 s, and as much again by chance:
 * tools/cache/reflector.go), and time for the list. They remember earlier failures for two minutes, and nothing tells from
 * outside that the last one of an API server is back.
 */
const LISTED_ANEW_MS = 65_000;
/** With time for the rest of AwaitRouting. */
const LEAST_ATTEMPT_MS = 120_000;
const SHOWN = 5;

/** @throws ApplicationFailure `InvalidInput` when no attempt of AwaitRouting could be long enough. */
export function refuseShortWait({ timeouts }: LogicalClusterMigrationInput): void {
  for (const limit of ["attemptMs", "totalMs"] as const) {
    const ms = timeouts.awaitRouting?.[limit];
    if (ms === undefined || ms >= LEAST_ATTEMPT_MS) continue;
    throw failure("InvalidInput", {
      message: `timeouts.awaitRouting.${limit}: ${ms} is too short with the fence inactive, which takes ${LISTED_ANEW_MS} ms there`,
      advice: `give ${LEAST_ATTEMPT_MS} or more, or leave it out`,
    });
  }
}

/**
 * Heals the wildcard context, and waits until whoever watches all clusters of the origin has listed anew. What is deleted
 * before, kcp's own informers never learn: they cannot apply a deletion that only a list tells them of (kcp v0.32.3;
 * mended by kcp-dev/kcp#4364). Measured: a deleted ClusterRoleBinding went on to grant.
 * @param meanwhile is called every second
 */
export async function awaitListedAnew(
  session: Session,
  signal: AbortSignal,
  meanwhile: () => Promise<void>,
): Promise<void> {
  do {
    await healAfterInactive(session, signal);
    const end = performance.now() + LISTED_ANEW_MS;
    while (performance.now() < end) {
      await meanwhile();
      await delay(1_000, undefined, { signal });
    }
    // Another move's fence may have come in between.
  } while (await hasDeadContext(session.from.api, "*"));
}

/**
 * @param since revision of the origin before the fence
 * @returns what others have deleted since then, and the origin does not know, for a person
 */
export async function unlearned(
  { from, origin, cluster }: Session,
  since: bigint,
  signal: AbortSignal,
): Promise<string[]> {
  const what = `objects of others, deleted while the fence inactive kept ${from.name} from watching`;
  const restart = `${from.name} acts as if they were there until its API server is restarted (kcp-dev/kcp#4364)`;
  try {
    const period = { from: since, until: await pulse(origin), signal };
    const deleted = await deletedOfOthers(from.store, { cluster, ...period });
    const keys = [...deleted].filter((key) => !isKnown(from.store.prefix, key)).map(displayKey);
    if (keys.length === 0) return [];
    const shown = [...keys.slice(0, SHOWN), ...(keys.length > SHOWN ? ["…"] : [])].join(", ");
    return [`${what}: ${restart}; ${keys.length}: ${shown}`];
  } catch (error) {
    if (!(error instanceof CompactedError)) throw error;
    return [`${what}: ${restart}; the history that would name them is gone`];
  }
}

/** LogicalClusters are watched on through the fence (kcp v0.32.3, filters/perclustercontext.go), and nobody acts for an Event. */
function isKnown(prefix: string, key: Key): boolean {
  const family = parseKey(prefix, key)?.family ?? "";
  return isLogicalCluster(family) || isOneOf(["core/events"], family);
}

/**
 * The `inactive` fence cancels the wildcard context of the whole shard, so that every list and watch over all clusters
 * fails there until some LogicalCluster becomes active again. A helper object of our own does that; the moved one
 * cannot, since any event of it at the origin would point the front-proxies back there.
 */
export async function healAfterInactive(session: Session, signal: AbortSignal): Promise<void> {
  const { from, origin, cluster } = session;
  const helper = `rehome-heal-${cluster}`.slice(0, 63);
  const key = logicalClusterKey(from.store.prefix, helper);
  if (!(await hasDeadContext(from.api, "*"))) {
    // An earlier attempt may have ended between its two writes.
    await origin.transact([], [remove(key)]);
    return;
  }
  const healing = withHealing(logicalCluster(helper), from.name);
  await origin.transact([], [put(key, JSON.stringify(healing))]);
  await pollUntil(
    `${from.name} serves wildcard requests again`,
    async () => !(await hasDeadContext(from.api, "*")) || "its wildcard context is still cancelled",
    { everyMs: 50, deadlineMs: 20_000, signal },
  );
  await origin.transact([], [remove(key)]);
}
