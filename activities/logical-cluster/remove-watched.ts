import { setTimeout as delay } from "node:timers/promises";
import { successor } from "../../etcd/keys.ts";
import type { ClusterRange } from "../../etcd/keys.ts";
import { removeKeys } from "../../etcd/remove.ts";
import type { RemoveOptions } from "../../etcd/remove.ts";
import type { Store } from "../../etcd/store.ts";
import type { Token } from "../../etcd/token.ts";
import { generations } from "../../kubernetes/generations.ts";
import type { Owned } from "../../kubernetes/generations.ts";
import { kinshipOf } from "../../kubernetes/stored-object.ts";

/** For watches of different resources, which are not in step. */
const SEEN_MS = 1_000;

export interface WatchedRemoveOptions extends RemoveOptions {
  /** Whether it looks on just now, so that it needs time to see what has gone. Left out where it always does. */
  readonly isWatched?: () => Promise<boolean>;
}

/**
 * {@link removeKeys} where the shard's garbage collector looks on, or may begin to. One that sees an owner go asks about what it owned; where
 * its question is refused, it asks again later, and deletes that if the cluster has come back to the shard by then (measured
 * with kcp v0.32.3). So what others own goes before its owners.
 */
export async function removeWatchedKeys(token: Token, options: WatchedRemoveOptions): Promise<number> {
  let deleted = 0;
  const remove = async (ranges: readonly ClusterRange[]) => {
    const before = deleted;
    const onProgress = (done: number) => options.onProgress?.(before + done);
    deleted += await removeKeys(token, { ...options, ranges, onProgress });
  };
  for (const generation of await ownedRanges(token.store, options.ranges)) {
    await remove(generation);
    if ((await options.isWatched?.()) ?? true) await delay(SEEN_MS, undefined, { signal: options.signal });
  }
  await remove(options.ranges);
  return deleted;
}

/** The keys of what others own, as {@link generations} orders them; what is encrypted may be owned, and owns hardly ever. */
async function ownedRanges(store: Store, ranges: readonly ClusterRange[]): Promise<ClusterRange[][]> {
  const owned: Owned<ClusterRange>[] = [];
  const hidden: ClusterRange[] = [];
  for (const range of ranges) {
    for await (const page of store.pages(range)) {
      for (const { key, value } of page) {
        const kin = kinshipOf(value);
        if (kin === undefined) continue;
        const only = { family: range.family, start: key, end: successor(key) };
        if (kin === "hidden") hidden.push(only);
        else owned.push({ ...kin, key: only });
      }
    }
  }
  return [hidden, ...generations(owned)].filter(({ length }) => length > 0);
}
