import { activityInfo } from "@temporalio/activity";
import { LockedError } from "../../etcd/errors.ts";
import { logicalClusterKey, turnKey } from "../../etcd/keys.ts";
import type { Entry } from "../../etcd/store.ts";
import { Token, lockHolder } from "../../etcd/token.ts";
import { passTurn } from "../../etcd/turn.ts";
import { Writer } from "../../etcd/writer.ts";
import { InactiveFence } from "../../kubernetes/kcp/inactive-fence.ts";
import { MigrationFence } from "../../kubernetes/kcp/migration-fence.ts";
import type { Fence, FenceTarget } from "../../kubernetes/kcp/fence.ts";
import { isSuspended, withHealing } from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import { hasDeadContext } from "../../kubernetes/kcp/probe.ts";
import type { FenceKind } from "../../kubernetes/kcp/probe.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import type { KcpSite, Shard } from "../../sites/kcp.ts";
import { put, when } from "../../etcd/store.ts";
import type { Subject } from "./types.ts";

/** One attempt of one mutating step: the two shards, and the right to write to their stores. */
export interface Session {
  readonly cluster: string;
  readonly from: Shard;
  readonly to: Shard;
  /** Raised for this attempt: any earlier one can write nothing more. */
  readonly origin: Token;
  readonly destination: Token;
  readonly writer: Writer;
  /** Whether the destination's revision is kept ahead of the origin's. */
  readonly align: boolean;
}

/**
 * Begins an attempt: resolves the shards and raises the fencing token in both stores.
 * @throws LockedError, SupersededError (etcd/token.ts), UnknownSiteError.
 */
export async function openSession(
  site: KcpSite,
  subject: Subject,
  options: { create?: boolean; deletesOnly?: boolean } = {},
): Promise<Session> {
  const [from, to] = await Promise.all([site.shard(subject.from), site.shard(subject.to)]);
  const [origin, destination] = await Promise.all(
    [from, to].map(async ({ store }) => await Token.raise(store, subject.cluster, claimOf(subject), options)),
  );
  return {
    cluster: subject.cluster,
    from,
    to,
    origin: origin!,
    destination: destination!,
    writer: new Writer(origin!, destination!),
    align: subject.revisions !== "accept-relist",
  };
}

/**
 * Attempts are ranked by when Temporal scheduled them: one attempt of a step after the other, one step after the
 * other, and further up also after a reset of the workflow, which counts attempts from one again.
 */
function claimOf({ move }: Subject) {
  return { move, epoch: activityInfo().currentAttemptScheduledTimestampMs };
}

/** The right to write to one shard's store; undefined when the move has given that lock back already. */
export async function tokenFor({ store }: Shard, subject: Subject): Promise<Token | undefined> {
  try {
    return await Token.raise(store, subject.cluster, claimOf(subject), { deletesOnly: true });
  } catch (error) {
    if (error instanceof LockedError) return undefined;
    throw error;
  }
}

/** Gives the locks back, as the last thing that a move does: a store without this move's lock counts as done. */
export async function releaseLocks(site: KcpSite, subject: Subject): Promise<void> {
  const { from, to, move } = subject;
  for (const [name, other] of [
    [from, to],
    [to, from],
  ] as const) {
    const token = await tokenFor(await site.shard(name), subject);
    if (token === undefined) continue;
    await passTurn(token, turnKey(token.store.prefix), move);
    await passTurn(token, turnKey(token.store.prefix, other), move);
    await token.release();
  }
}

/**
 * For a step that raises no token: an attempt of it that was given up may wake up when the move is over.
 * @throws LockedError when the move does not hold its lock any more.
 */
export async function mustHoldLock({ store }: Shard, { cluster, move }: Subject): Promise<void> {
  const holder = await lockHolder(store, cluster);
  if (holder !== move) throw new LockedError(store.name, holder);
}

/** @param check see {@link FenceTarget.check} */
export function fenceOf(site: KcpSite, subject: Subject, from: Shard, check: FenceTarget["check"]): Fence {
  const target = {
    check,
    cluster: subject.cluster,
    shardName: from.name,
    shard: from.api,
    frontProxy: site.frontProxy,
    workspace: site.fenceWorkspace,
  };
  return subject.fence === "migration"
    ? new MigrationFence(target, claimOf(subject))
    : new InactiveFence(target);
}

/** A LogicalCluster object as it is stored, with its etcd entry for guards. */
export interface StoredLogicalCluster {
  readonly entry: Entry;
  readonly object: LogicalCluster;
}

/** The stored LogicalCluster object of a shard, of now or of a revision. */
export async function readLogicalCluster(
  shard: Shard,
  cluster: string,
  revision?: bigint,
): Promise<StoredLogicalCluster | undefined> {
  const key = logicalClusterKey(shard.store.prefix, cluster);
  const { entry } = await shard.store.get(key, revision === undefined ? {} : { revision });
  return entry && { entry, object: JSON.parse(entry.value.toString()) as LogicalCluster };
}

/**
 * Makes the shard forget that it cancelled the cluster's request context.
 * @param fence of the move: the other one is made by the mark that suspends a cluster.
 * @returns false when there is no cluster any more, or it is suspended, or waits for its terminators.
 */
export async function beginHealing(token: Token, shard: Shard, fence: FenceKind): Promise<boolean> {
  for (;;) {
    const stored = await readLogicalCluster(shard, token.cluster);
    if (!stored) return false;
    const { metadata, status } = stored.object;
    const isDeleted = metadata.deletionTimestamp !== undefined;
    // kcp is at it. A second cut of all watches within a second of the first would make them list anew.
    if (!isSuspended(stored.object) && status?.phase === "Inactive") return true;
    // kcp comes back to this phase without a look at the contexts.
    if (isDeleted && status?.phase === "Terminating") return false;
    // Somebody's suspension: what ends that heals the contexts too.
    if (!isDeleted && fence === "migration" && isSuspended(stored.object)) return false;
    const healing = put(stored.entry.key, JSON.stringify(withHealing(stored.object, shard.name)));
    const { succeeded } = await token.transact(
      [when.modifiedAt(stored.entry.key, stored.entry.modRevision)],
      [healing],
    );
    if (succeeded) return true;
  }
}

/** The same where it is needed, and waits until the shard serves again. */
export async function healContexts(
  token: Token,
  shard: Shard,
  fence: FenceKind,
  signal: AbortSignal,
): Promise<void> {
  const { cluster } = token;
  const isServed = async () => {
    if (!(await hasDeadContext(shard.api, cluster)) || !(await beginHealing(token, shard, fence)))
      return true;
    return "its request context is still cancelled";
  };
  await pollUntil(`${shard.name} serves ${cluster} again`, isServed, {
    everyMs: 50,
    deadlineMs: 20_000,
    signal,
  });
}
