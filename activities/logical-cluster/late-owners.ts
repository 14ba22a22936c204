import { displayKey } from "../../etcd/keys.ts";
import type { Entry } from "../../etcd/store.ts";
import { isLateOwner } from "../../kubernetes/kcp/families.ts";
import { ownersOf } from "../../kubernetes/stored-object.ts";
import { failure } from "../../workflows/engine/failures.ts";

/**
 * Refuses an object that is copied before its owner can be: the destination's garbage collector would find no such owner,
 * delete the object or take the reference off it, and do the same to each further copy, since it remembers who was absent
 * (Kubernetes, pkg/controller/garbagecollector, `absentOwnerCache`).
 *
 * @param entry of a family that does not wait for the cutover
 * @throws ApplicationFailure `Refused`
 */
export function refuseLateOwner({ key, value }: Entry): void {
  const owner = ownersOf(value).find(isLateOwner);
  if (owner === undefined) return;
  throw failure("Refused", {
    message: `${displayKey(key)} is owned by ${owner.kind} ${owner.name}, which comes to the destination in the cutover only: the garbage collector there would not let the copy be`,
    advice: "take the ownerReference off it for the time of the move",
  });
}
