import type { Filled } from "./fill.ts";
import type { FrontProxy } from "./front-proxy.ts";
import { objectPath } from "./resources.ts";
import type { StoredObject } from "./resources.ts";

/**
 * Does something, and waits until it has led to the deletion of all these
 * objects, as seen by watches that were there before.
 *
 * @returns what is wrong after `withinMs`: objects that are left, or whose deletion no watch has told
 */
export async function awaitDeletions(
  frontProxy: FrontProxy,
  cluster: string,
  objects: readonly Filled[],
  withinMs: number,
  trigger: () => Promise<void>,
): Promise<string[]> {
  const signal = AbortSignal.timeout(withinMs);
  const groups = Map.groupBy(objects, ({ resource, namespace }) => objectPath(cluster, resource, namespace));
  const opened: Promise<void>[] = [];
  const waits = [...groups].map(([collection, group]) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    opened.push(promise);
    return awaitGone(frontProxy, collection, new Map(group.map((one) => [one.name, one])), signal, resolve);
  });
  await Promise.race([Promise.all(opened), Promise.all(waits)]);
  await trigger();
  const left = (await Promise.all(waits)).flat();
  return await Promise.all(left.map(async (object) => await describe(frontProxy, cluster, object)));
}

async function describe(frontProxy: FrontProxy, cluster: string, object: Filled): Promise<string> {
  const { resource, namespace, name } = object;
  const { status } = await frontProxy.send({
    method: "GET",
    path: objectPath(cluster, resource, namespace, name),
  });
  const title = `${resource.plural}/${namespace}/${name}`;
  return status === 404
    ? `${title} is gone, but no watch has told so`
    : `${title} is still there (${status})`;
}

/** Watches one collection until none of the awaited is left. Takes them out of the map one by one. */
async function awaitGone(
  frontProxy: FrontProxy,
  collection: string,
  awaited: Map<string, Filled>,
  signal: AbortSignal,
  opened: () => void,
): Promise<Filled[]> {
  let isFirst = true;
  while (awaited.size > 0 && !signal.aborted) {
    const list = await frontProxy.json<List>({ method: "GET", path: collection });
    const present = new Set(list.items.map(({ metadata }) => metadata.name));
    // What went while no watch was open.
    if (!isFirst) for (const name of awaited.keys()) if (!present.has(name)) awaited.delete(name);
    isFirst = false;
    await watchOnce(frontProxy, `${collection}?watch=true&resourceVersion=${list.metadata.resourceVersion}`, {
      signal,
      opened,
      deleted: (name) => awaited.delete(name) && awaited.size === 0,
    });
  }
  return [...awaited.values()];
}

interface List {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly StoredObject[];
}

/** Until the server or the time ends it, or `deleted` says that all is done. */
async function watchOnce(
  frontProxy: FrontProxy,
  path: string,
  on: { signal: AbortSignal; opened(): void; deleted(name: string): boolean },
): Promise<void> {
  const done = new AbortController();
  const line = (text: string) => {
    const { type, object } = JSON.parse(text) as { type: string; object: StoredObject };
    if (type === "DELETED" && on.deleted(object.metadata.name)) done.abort();
  };
  try {
    const signal = AbortSignal.any([on.signal, done.signal]);
    await frontProxy.watch(path, signal, { opened: () => on.opened(), line });
  } catch (error) {
    if (!done.signal.aborted && !on.signal.aborted) throw error;
  }
}
