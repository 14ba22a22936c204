import { ownKeys } from "../../etcd/keys.ts";
import { isFull } from "../../etcd/errors.ts";
import { put, remove, when } from "../../etcd/store.ts";
import type { Operation } from "../../etcd/store.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";
import type { Switched } from "./types.ts";

/** A fence's record that no switch finds as its attempt wrote it, which it needs: see insideFence. */
const PREVENTED = JSON.stringify({ at: 0 });

/** The switch, as it recorded itself in the transaction that made it. */
export async function readSwitched({ to, cluster }: Session): Promise<Switched | undefined> {
  const { entry } = await to.store.get(ownKeys(to.store.prefix, cluster).switched);
  return entry && (JSON.parse(entry.value.toString()) as Switched);
}

/**
 * Makes sure that a switch which was sent, and not answered, does not take effect later: to be done before the origin
 * is opened again.
 * @returns the switch, when it has taken effect already.
 */
export async function preventSwitch(session: Session): Promise<Switched | undefined> {
  const { switched, fence } = ownKeys(session.to.store.prefix, session.cluster);
  const prevent = async (operation: Operation) =>
    await session.destination.transact([when.modifiedAt(switched, 0n)], [operation]);
  const { succeeded } = await prevent(put(fence, PREVENTED)).catch(async (error: unknown) => {
    // A full store takes this: without the record no switch takes effect either.
    if (isFull(error)) return await prevent(remove(fence));
    throw error;
  });
  return succeeded ? undefined : await readSwitched(session);
}

/** Whether an attempt was about to ask for the fence, and none has taken it off again. */
export async function isFenceRecorded({ to, cluster }: Session): Promise<boolean> {
  return (await to.store.get(ownKeys(to.store.prefix, cluster).fence)).entry !== undefined;
}

/**
 * For what writes to the destination as only a move may before its switch, such as after a reset of the workflow: what is
 * served there must not be made equal to what is left at the origin.
 * @throws ApplicationFailure `Conflict`
 */
export async function refuseAfterSwitch(session: Session): Promise<void> {
  if (!(await readLogicalCluster(session.to, session.cluster))) return;
  throw (await readSwitched(session)) ? servedThere(session) : strange(session);
}

export function servedThere({ to, cluster }: Session): Error {
  return failure("Conflict", {
    message: `${cluster} is served by ${to.name}: nothing is undone, and nothing copied`,
    advice: "reset the workflow to right before its cutover, so that it goes forward",
  });
}

function strange({ to, cluster }: Session): Error {
  return failure("Conflict", {
    message: `${to.name} has a LogicalCluster ${cluster} that this move has not made: nothing is written or deleted there`,
    advice: `find out who made it, and delete it at ${to.name}; then resume`,
  });
}
