import { ownKeys } from "../../etcd/keys.ts";
import { isFull } from "../../etcd/errors.ts";
import { put, remove, when } from "../../etcd/store.ts";
import type { Entry } from "../../etcd/store.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";
import type { FenceSpan, Switched } from "./types.ts";

/** The switch, as it recorded itself in the transaction that made it. */
export async function readSwitched({
  to,
  cluster,
}: Pick<Session, "to" | "cluster">): Promise<Switched | undefined> {
  const { entry } = await to.store.get(ownKeys(to.store.prefix, cluster).switched);
  return entry && (JSON.parse(entry.value.toString()) as Switched);
}

/**
 * Makes sure that a switch which was sent, and not answered, does not take effect later: to be done before the origin
 * is opened again. A full store takes it too.
 * @returns the switch, when it has taken effect already.
 */
export async function preventSwitch(session: Session): Promise<Switched | undefined> {
  const { switched, armed } = ownKeys(session.to.store.prefix, session.cluster);
  const { succeeded } = await session.destination.transact([when.modifiedAt(switched, 0n)], [remove(armed)]);
  return succeeded ? undefined : await readSwitched(session);
}

/**
 * Notes down that the front-proxies serve from the destination.
 * @returns when they were seen to for the first time, ms: what later attempts wait for, no user waits for.
 */
export async function recordRouted({ destination, cluster }: Session): Promise<number> {
  const now = Date.now();
  const { routed } = ownKeys(destination.store.prefix, cluster);
  const { succeeded } = await destination.transact([when.modifiedAt(routed, 0n)], [put(routed, String(now))]);
  return succeeded ? now : Number((await destination.store.get(routed)).entry?.value.toString());
}

/** Whether an attempt was about to ask for the fence, and none has taken it off again. */
export async function isFenceRecorded({ to, cluster }: Session): Promise<boolean> {
  return (await to.store.get(ownKeys(to.store.prefix, cluster).fence)).entry !== undefined;
}

/** To be called when the fence is off. For the report it leaves for how long users may have been refused. */
export async function forgetFence(session: Session): Promise<void> {
  const { to, cluster, destination } = session;
  const { fence, armed, fences } = ownKeys(to.store.prefix, cluster);
  const gone = [remove(fence), remove(armed)];
  const { entry } = await to.store.get(fence);
  const span = entry && { from: fenceRecordedAt(entry), until: Date.now() };
  const told = span ? [put(fences, JSON.stringify([...(await readFences(session)), span]))] : [];
  await destination.transact([], [...gone, ...told]).catch(async (error: unknown) => {
    // A full store takes deletions only.
    if (!isFull(error)) throw error;
    await destination.transact([], gone);
  });
}

/** The fences that have come off again, the oldest first. */
export async function readFences({
  to,
  cluster,
}: Pick<Session, "to" | "cluster">): Promise<readonly FenceSpan[]> {
  const { entry } = await to.store.get(ownKeys(to.store.prefix, cluster).fences);
  return entry ? (JSON.parse(entry.value.toString()) as FenceSpan[]) : [];
}

export function fenceRecord(at: number): string {
  return JSON.stringify({ at });
}

function fenceRecordedAt({ value }: Entry): number {
  return (JSON.parse(value.toString()) as { at: number }).at;
}

/**
 * For what makes the destination equal to the origin, such as after a reset of the workflow: what is served, or was, must
 * not be made equal to what is left at the origin.
 * @throws ApplicationFailure `Conflict`
 */
export async function refuseAfterSwitch(session: Session): Promise<void> {
  if (await readSwitched(session)) throw servedThere(session);
  await refuseServed(session);
}

/** @throws ApplicationFailure `Conflict` where the destination has the cluster: the only copy must not be deleted. */
export async function refuseServed(session: Session): Promise<void> {
  if (!(await readLogicalCluster(session.to, session.cluster))) return;
  throw (await readSwitched(session)) ? servedThere(session) : strange(session);
}

export function servedThere({ to, cluster }: Session): Error {
  return failure("Conflict", {
    message: `${cluster} is served by ${to.name}: nothing is undone, and nothing copied`,
    advice:
      "reset the workflow to right before its activity cutover, so that it goes forward (docs/operations.md)",
  });
}

function strange({ to, cluster }: Session): Error {
  return failure("Conflict", {
    message: `${to.name} has a LogicalCluster ${cluster} that this move has not made: nothing is written or deleted there`,
    advice: `find out who made it, and delete it at ${to.name}; then resume`,
  });
}
