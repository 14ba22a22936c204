import { log } from "@temporalio/activity";
import { raiseRevision } from "../../etcd/revisions.ts";
import type { Store } from "../../etcd/store.ts";
import type { Token } from "../../etcd/token.ts";
import type { Work } from "../work.ts";

/** Some four minutes, in which nobody waits. */
const MOST_REVISIONS = 1_000_000n;

/**
 * Raises the shard that serves a cluster above all that has just been deleted of it at another. A client that comes to that
 * one by a later move resumes its watches above these deletions then; else it would be told that its objects are gone, and
 * then that they are there again, as long as the watch cache remembers (k8s.io/apiserver, storage/cacher/watch_cache.go).
 * Clients that only watch take the new resourceVersion from a bookmark, within a minute.
 */
export async function raiseAbove(serving: Token, left: Store, work: Work): Promise<void> {
  const [before, target] = [await serving.store.head(), await left.head()];
  if (target - before > MOST_REVISIONS) {
    log.warn("informers may be told of deletions by a later move", {
      [serving.store.name]: String(before),
      [left.name]: String(target),
    });
    return;
  }
  await raiseRevision(serving, target, {
    signal: work.signal,
    onProgress: (reached) =>
      work.tell({ done: Number(reached - before), total: Number(target - before), unit: "revisions" }),
  });
}
