import { makeInformer } from "@kubernetes/client-node";
import type { KubeConfig, KubernetesListObject, KubernetesObject } from "@kubernetes/client-node";
import { tell, wordsOf } from "./tell.ts";

const retryAfterMs = 1_000;

export interface Following<T> {
  /** Path of the list, e.g. `/api/v1/pods`. */
  readonly path: string;
  readonly list: () => Promise<KubernetesListObject<T & KubernetesObject>>;
  readonly onChange: (object: T) => void;
  readonly onDelete: (object: T) => void;
}

/** What is known of a followed resource. */
export interface Followed<T> {
  /** All objects, as of the last event. */
  list(): readonly T[];
}

/**
 * Lists a resource, then watches it for as long as the process lives. A lost
 * connection is made again from the last version seen; a version that the server
 * has forgotten leads to a new list, with the differences as events. Resolves
 * after the first list.
 */
export async function follow<T extends KubernetesObject>(
  config: KubeConfig,
  following: Following<T>,
): Promise<Followed<T>> {
  const { path, list, onChange, onDelete } = following;
  const listed = Promise.withResolvers<undefined>();
  const informer = makeInformer<T>(config, path, async () => {
    const found = await list();
    // The list's objects are in the cache only after this function has returned.
    setImmediate(() => listed.resolve(undefined));
    return found;
  });
  informer.on("change", onChange);
  informer.on("delete", onDelete);
  informer.on("error", (error: unknown) => {
    tell(`watch of ${path}: ${wordsOf(error)}; again in ${retryAfterMs} ms`);
    setTimeout(() => void informer.start(), retryAfterMs);
  });
  await informer.start();
  await listed.promise;
  return { list: () => informer.list() };
}
