import { setTimeout as delay } from "node:timers/promises";
import { ApiError } from "../../../kubernetes/api-server.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { list } from "../../../kubernetes/objects.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";

interface Event<T> {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: T;
}

const RETRY_MS = 30;

/**
 * Tells of every object of a collection as it is, and again whenever it changes, as a controller's informer does.
 * Each object is worked on by one call at a time, which sees the newest state there is; a call that fails with a
 * conflict is made again. Ends with the signal.
 */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as each caller knows its objects
export async function follow<T extends KubeObject>(
  api: ApiServer,
  path: string,
  work: (object: T) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const dirty = new Map<string, T>();
  const busy = new Set<string>();
  const run = async (key: string): Promise<void> => {
    busy.add(key);
    for (let object = dirty.get(key); object !== undefined; object = dirty.get(key)) {
      dirty.delete(key);
      try {
        // Read again: what the watch has told may be older than what this driver has written since.
        const newest = await api.find<T>({ path: selfOf(path, object), signal });
        if (newest !== undefined) await work(newest);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        await delay(RETRY_MS);
        if (!dirty.has(key)) dirty.set(key, object);
      }
    }
    busy.delete(key);
  };
  const tell = (object: T): void => {
    const key = `${object.metadata.namespace ?? ""}/${object.metadata.name}`;
    dirty.set(key, object);
    // A driver that breaks must break the test: the rejection is not caught.
    if (!busy.has(key)) void run(key);
  };
  while (!signal.aborted) {
    try {
      const { metadata, items } = await list<T>(api, { path }, signal);
      items.forEach(tell);
      const query = `watch=1&resourceVersion=${metadata.resourceVersion}`;
      for await (const line of api.lines({ path: `${path}?${query}`, signal })) {
        const { type, object } = JSON.parse(line) as Event<T>;
        if (type === "ERROR") break;
        if (type === "ADDED" || type === "MODIFIED") tell(object);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Error)) throw error;
      await delay(RETRY_MS);
    }
  }
}

/** Path of one object of a collection, which may be that of all namespaces. */
export function selfOf(path: string, { metadata: { name, namespace } }: KubeObject): string {
  const slash = path.lastIndexOf("/");
  const isOfAll = namespace !== undefined && !path.includes("/namespaces/");
  const folder = isOfAll ? `${path.slice(0, slash)}/namespaces/${namespace}${path.slice(slash)}` : path;
  return `${folder}/${name}`;
}
