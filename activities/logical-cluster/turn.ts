import { turnKey } from "../../etcd/keys.ts";
import { passTurn, takeTurn } from "../../etcd/turn.ts";
import type { Token } from "../../etcd/token.ts";
import type { Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
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
  const [here, there] = inOrder(from, to);
  const key = turnKey(here.store.prefix, there.name);
  const turn = await takeTurn(here.store, key, { ...subject, way: `${from.name} ${to.name}` });
  if (turn === undefined) return;
  throw failure(type, {
    message: `it is not the turn of ${subject.cluster} to go from ${from.name} to ${to.name}`,
    found: `${turn.cluster} goes the other way, by the move ${turn.move}`,
  });
}

/** For others not to wait until all is cleaned up, and with it the lock is released: then it ends too. */
export async function passDirection(
  { origin, destination }: { readonly origin: Token; readonly destination: Token },
  { from, to, move }: Subject,
): Promise<void> {
  const [token, other] = from < to ? [origin, to] : [destination, from];
  await passTurn(token, turnKey(token.store.prefix, other), move);
}

/** The same for both directions, so that both ask in the same store. */
function inOrder(from: Shard, to: Shard): [Shard, Shard] {
  return from.name < to.name ? [from, to] : [to, from];
}
