import { setTimeout as delay } from "node:timers/promises";
import { displayKey, logicalClusterKey } from "../../etcd/keys.ts";
import { removeKeys } from "../../etcd/remove.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { put, remove, when } from "../../etcd/store.ts";
import type { Entry, Store } from "../../etcd/store.ts";
import type { Token } from "../../etcd/token.ts";
import { cleanupOrder } from "../../kubernetes/kcp/families.ts";
import { isStandIn, standInFor } from "../../kubernetes/kcp/logical-cluster.ts";
import { answersThroughFence, startedAt } from "../../kubernetes/kcp/probe.ts";
import { WaitError, pollUntil } from "../../kubernetes/wait.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { awaitRouted, touch } from "./routing.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";
import { readFences, readSwitched } from "./switched.ts";

type Sides = Pick<Session, "cluster" | "from" | "to" | "origin">;

const LED_AWAY_MS = 5_000;
const HEALED = { everyMs: 20, deadlineMs: 20_000 };
/** Longer than the second after which who was refused asks again. */
const QUIET_MS = 250;
const QUIET_LOOKS = 8;
/** Where an object stays for a conflict, its controllers do not end. */
const MOST_LOOKS = 40;

/** How long an API server's garbage collector takes after its start to ask about all owners, and clocks may differ. */
const STARTING_MS = 60_000;

/**
 * Whether the origin's garbage collector was at its first questions when a fence was up. After its start it asks about every
 * owner, and what is refused, by the fence or by the context that the cut leaves, it asks again later and later. In a
 * context that is cancelled one answer in many gets through: that an owner is gone, as its dependents are, about which it
 * goes on to ask. When the cluster is back at that shard it deletes them, without another look at the owner (Kubernetes,
 * pkg/controller/garbagecollector, absentOwnerCache). Read there; what the fault matrix lost once agrees with it.
 */
export async function hasOpenQuestions(
  session: Pick<Session, "cluster" | "from" | "to">,
  signal: AbortSignal,
): Promise<boolean> {
  const [fences, switched] = await Promise.all([readFences(session), readSwitched(session)]);
  const fencedAt = fences[0]?.from ?? switched?.fenceAt;
  // What does not answer is not waited for: an API server that has died has no questions.
  const started = await startedAt(session.from.replicas, signal).catch(() => 0);
  signal.throwIfAborted();
  return started === undefined || fencedAt === undefined || started > fencedAt - STARTING_MS;
}

/**
 * The cut leaves the origin's request context of the cluster cancelled for good. Nobody asks the origin for the cluster any
 * more but the origin itself: whether somebody may bind an export or make a workspace of a type, and what an export's provider
 * may do at the origin's virtual workspaces (kcp v0.32.3, pkg/authorization/delegated/authorizer.go). A dead context fails
 * nearly all of these questions, and no answer is a refusal. So the context is dropped, by an object that stands for the
 * cluster for a moment. Its events point front-proxies to the origin, so the destination's object is touched all the while;
 * who comes in between is told to come back, where the fence is `migration`, which is still up.
 * @returns what is left where it does not work: a restart of the shard mends it too, so the move does not wait for it.
 */
export async function healOrigin(site: KcpSite, sides: Sides, signal: AbortSignal): Promise<string[]> {
  const { from, origin, cluster } = sides;
  const answers = async () => await answersThroughFence(from.replicas, cluster);
  if (await answers()) return [];
  const key = logicalClusterKey(from.store.prefix, cluster);
  const isHealed = async () => {
    if (await answers()) return true;
    const standIn = put(key, JSON.stringify(standInFor(cluster, from.name)));
    await origin.transact([when.modifiedAt(key, 0n)], [standIn]);
    await touch(sides);
    return "its request context is still cancelled";
  };
  try {
    await pollUntil(`${from.name} answers questions about ${cluster} again`, isHealed, { ...HEALED, signal });
    return [];
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof WaitError)) throw error;
    // Not by an attempt that slept while the move went on.
    await origin.check();
    return [
      `the cancelled request context of ${cluster} at ${from.name}: new bindings to its exports may be refused there until the shard's API server is restarted (${(error as Error).message})`,
    ];
  } finally {
    await removeStandIn(site, sides, signal);
  }
}

/**
 * Takes away what {@link healOrigin} has put there, in this attempt or in one that died. First front-proxies are led
 * away: one that takes the origin for the place of the cluster, and sees the object go, forgets it and its path.
 */
export async function removeStandIn(site: KcpSite, sides: Sides, signal: AbortSignal): Promise<void> {
  const { from, to, origin, cluster } = sides;
  for (;;) {
    const stored = await readLogicalCluster(from, cluster);
    if (!stored || !isStandIn(stored.object)) return;
    const isServed = (await readLogicalCluster(to, cluster)) !== undefined;
    if (isServed) {
      await touch(sides);
      // One that does not answer is led back when it does: awaitFound.
      const soon = AbortSignal.any([signal, AbortSignal.timeout(LED_AWAY_MS)]);
      await awaitRouted(site, sides, soon).catch(() => signal.throwIfAborted());
    }
    const { key, modRevision } = stored.entry;
    const { succeeded } = await origin.transact([when.modifiedAt(key, modRevision)], [remove(key)]);
    if (!succeeded) continue;
    if (isServed) await touch(sides);
  }
}

/**
 * Some of the origin's controllers answer a deletion by making the object anew. The fence tells them to come back in a second,
 * which they do, and a context that is alive lets them pass then.
 * @param kept keys, as they are displayed, that stay at the origin for a conflict
 * @returns what is left where they do not end
 */
export async function removeAnswers(
  store: Store,
  origin: Token,
  kept: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  const onLate = async ({ key }: Pick<Entry, "key">) => !kept.includes(displayKey(key));
  let quiet = 0;
  for (let looks = 0; quiet < QUIET_LOOKS && looks < MOST_LOOKS; looks += 1) {
    await delay(QUIET_MS, undefined, { signal });
    const ranges = cleanupOrder(await rangesOf(store, origin.cluster));
    const removed = await removeKeys(origin, { ranges, unchangedSince: 0n, onLate, signal });
    quiet = removed > 0 ? 0 : quiet + 1;
  }
  return quiet === QUIET_LOOKS
    ? []
    : [`what controllers of ${store.name} make of ${origin.cluster} again and again`];
}
