import { takeTurn } from "../../etcd/turn.ts";
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
  const turn = await takeTurn(store, subject);
  if (turn === undefined) return;
  throw failure(type, {
    message: `it is not the turn of ${subject.cluster} to leave ${name} with the fence inactive`,
    found: `${turn.cluster} leaves it, by the move ${turn.move}`,
  });
}
