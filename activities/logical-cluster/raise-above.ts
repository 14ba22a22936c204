import { log } from "@temporalio/activity";
import { ownKeys, prefixRange } from "../../etcd/keys.ts";
import { raiseRevision } from "../../etcd/revisions.ts";
import type { Store } from "../../etcd/store.ts";
import type { Shard } from "../../sites/kcp.ts";
import type { Work } from "../work.ts";
import { tokenFor } from "./session.ts";
import type { Subject } from "./types.ts";

/** Some four minutes, in which nobody waits. */
const MOST_REVISIONS = 1_000_000n;

/**
 * Raises the shard that serves a cluster above all that the move has deleted of it at the other. A client that comes to that
 * one by a later move resumes its watches above these deletions then; else it would be told that its objects are gone, and
 * then that they are there again, as long as the watch cache remembers (k8s.io/apiserver, storage/cacher/watch_cache.go).
 * Clients that only watch take the new resourceVersion from a bookmark, within a minute.
 *
 * Not where other moves go on at that shard: those away from it have copies that must stand above all that it counts. To be
 * called when nothing more is deleted, and before the locks are given back.
 */
export async function raiseAbove(serving: Shard, left: Shard, subject: Subject, work: Work): Promise<void> {
  if (subject.revisions === "accept-relist" || (await hasOthers(serving.store, subject.cluster))) return;
  const [before, target] = [await serving.store.head(), await left.store.head()];
  if (target <= before) return;
  if (target - before > MOST_REVISIONS) {
    log.warn("informers may be told of deletions by a later move", {
      [serving.name]: String(before),
      [left.name]: String(target),
    });
    return;
  }
  const token = await tokenFor(serving, subject);
  // A full store takes nothing but deletions.
  if (token === undefined || token.isAdopted) return;
  await raiseRevision(token, target, {
    signal: work.signal,
    onProgress: (reached) =>
      work.tell({ done: Number(reached - before), total: Number(target - before), unit: "revisions" }),
  });
}

/** Whether other moves hold locks there. */
async function hasOthers(store: Store, cluster: string): Promise<boolean> {
  const { entries } = await store.read(prefixRange(`${store.prefix}.rehome/`));
  const { lock } = ownKeys(store.prefix, cluster);
  return entries.some(({ key }) => key.endsWith("/lock") && key !== lock);
}
