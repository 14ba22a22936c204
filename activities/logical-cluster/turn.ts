import { turnKey } from "../../etcd/keys.ts";
import { passTurn, takeTurn, turnsNow } from "../../etcd/turn.ts";
import type { Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { Session } from "./session.ts";
import type { Subject } from "./types.ts";

/**
 * With the fence `inactive` one move at a time is between the last proof and the end of its cleanup at a shard: the fence of
 * another would cut the watches by which that shard is to learn of what the first deletes.
 * @param type of the failure: `Timeout` is tried again here, `NotVerified` leads back to where it can be waited for.
 * @throws ApplicationFailure of that type when another move has the turn.
 */
export async function mustHaveTurn(
  { name, store }: Shard,
  subject: Subject,
  type: "Timeout" | "NotVerified",
): Promise<void> {
  const turn = await takeTurn(store, turnKey(store.prefix), { ...subject, way: subject.move });
  if (turn === undefined) return;
  throw failure(type, {
    message: `it is not the turn of ${subject.cluster} to leave ${name} with the fence inactive`,
    found: `${turn.cluster} leaves it, by the move ${turn.move}`,
  });
}

/**
 * Until its switch a move keeps the revision of its destination above that of its origin. Two moves in opposite directions
 * would do so against each other, and neither would get through.
 * @param type of the failure: `Timeout` is tried again here, `NotVerified` leads back to where it can be waited for.
 * @throws ApplicationFailure of that type when another move is in the opposite direction.
 */
export async function mustHaveDirection(
  from: Shard,
  to: Shard,
  subject: Subject,
  type: "Timeout" | "NotVerified",
): Promise<void> {
  const { store, key } = directionOf(from, to);
  const turn = await takeTurn(store, key, { ...subject, way: wayOf(subject) });
  if (turn === undefined) return;
  throw failure(type, {
    message: `it is not the turn of ${subject.cluster} to go from ${from.name} to ${to.name}`,
    found: `${turn.cluster} goes the other way, by the move ${turn.move}`,
  });
}

/** Whether the move has its turn: only then may it raise its destination again and again. */
export async function hasDirection(from: Shard, to: Shard, { move }: Subject): Promise<boolean> {
  const { store, key } = directionOf(from, to);
  return (await turnsNow(store, key)).some((turn) => turn.move === move);
}

/** Whether others have their turn in the opposite direction: raising this move's destination would send them back. */
export async function isOpposed(from: Shard, to: Shard, subject: Subject): Promise<boolean> {
  const { store, key } = directionOf(from, to);
  return (await turnsNow(store, key)).some(({ way }) => way !== wayOf(subject));
}

/** For others not to wait until all is cleaned up, and with it the lock is released: then it ends too. */
export async function passDirection(session: Session, { move }: Subject): Promise<void> {
  const { from, to, origin, destination } = session;
  const { store, key } = directionOf(from, to);
  await passTurn(store === origin.store ? origin : destination, key, move);
}

function wayOf({ from, to }: Subject): string {
  return `${from} ${to}`;
}

/** The same for both directions, so that both ask in the same store. */
function directionOf(from: Shard, to: Shard) {
  const [here, there] = from.name < to.name ? [from, to] : [to, from];
  return { store: here.store, key: turnKey(here.store.prefix, there.name) };
}
