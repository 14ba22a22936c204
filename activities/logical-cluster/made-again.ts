import { displayKey, parseKey } from "../../etcd/keys.ts";
import type { Key } from "../../etcd/keys.ts";
import { chunksOf } from "../../etcd/store.ts";
import type { Store } from "../../etcd/store.ts";
import { rangesOnEitherSide } from "../../etcd/verify.ts";
import { awaitDeleters, deleterOf } from "../../kubernetes/kcp/deleters.ts";
import type { Deleter } from "../../kubernetes/kcp/deleters.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { Session } from "./session.ts";

/*
 * A namespace that is deleted and made again while it moves: the destination's own deleter may still be emptying the first
 * one, by its name, when the second one comes, and would delete what is in that. The same with CRDs and APIBindings.
 */

/**
 * Waits until each deleter of the destination has seen what there is now. Not for long for one that never rests: it may be kept
 * at work by whatever tenant of that shard, by a finalizer that nobody takes off.
 */
export async function letDeletersEnd({ from, to, cluster }: Session, signal: AbortSignal): Promise<void> {
  const ranges = await rangesOnEitherSide(from.store, to.store, cluster);
  const deleters = ranges.map(({ family }) => deleterOf(family)).filter((deleter) => deleter !== undefined);
  await awaitDeleters(to.replicas, new Set<Deleter>(deleters), signal);
}

/**
 * @param changed what has changed meanwhile.
 * @param since revision of the origin, as of which the deleters know what is being deleted.
 * @param until revision of the origin.
 * @throws ApplicationFailure `NotVerified` when one of these keys has been made again in between. An APIBinding that has gone
 *   is enough: its deleter empties the resources that it has bound, which are another one's by then.
 */
export async function mustNotBeMadeAgain(
  store: Store,
  changed: ReadonlySet<Key>,
  since: bigint,
  until: bigint,
): Promise<void> {
  const deleterOfKey = (key: Key) => deleterOf(parseKey(store.prefix, key)?.family ?? "");
  const keys = [...changed].filter((key) => deleterOfKey(key) !== undefined);
  for (const chunk of chunksOf(keys)) {
    const [before, now] = await Promise.all([store.getMany(chunk, since), store.getMany(chunk, until)]);
    for (const [key, { createRevision }] of before) {
      const isThere = now.has(key);
      const isAnother = isThere && now.get(key)!.createRevision !== createRevision;
      if (!isAnother && (isThere || deleterOfKey(key) !== "kcp-apibindingdeletion")) continue;
      throw failure("NotVerified", `${displayKey(key)} was deleted just before the switch, or made again`);
    }
  }
}
