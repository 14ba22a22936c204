import { ownKeys } from "../../etcd/keys.ts";
import { put, when } from "../../etcd/store.ts";
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
  const { succeeded } = await session.destination.transact(
    [when.modifiedAt(switched, 0n)],
    [put(fence, PREVENTED)],
  );
  return succeeded ? undefined : await readSwitched(session);
}
