import { ApiError } from "./api-server.ts";
import type { ApiServer } from "./api-server.ts";
import { WaitError } from "./wait.ts";

/** What every object has that moves care about. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  };
}

interface List<T> {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly T[];
}

interface WatchEvent<T> {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: T;
}

/** Which objects of a collection: a path such as `/apis/apps/v1/namespaces/x/deployments`, and selectors. */
export interface Collection {
  readonly path: string;
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface WaitOptions {
  /** What is waited for, in words for the error. */
  readonly what: string;
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/**
 * Lists, then watches, until `holds` says true of the objects that are there; otherwise it says what it sees. Begins
 * anew with a list when the watch ends or its history is gone.
 * @returns the objects as they were then. @throws WaitError at the deadline, ApiError, or the socket's error.
 */
export async function awaitObjects<T extends KubeObject>(
  api: ApiServer,
  collection: Collection,
  holds: (objects: readonly T[]) => true | string,
  { what, deadlineMs, signal }: WaitOptions,
): Promise<readonly T[]> {
  const deadline = AbortSignal.timeout(deadlineMs);
  const either = AbortSignal.any([signal, deadline]);
  let seen = "nothing yet";
  try {
    for (;;) {
      const { metadata, items } = await list<T>(api, collection, either);
      const objects = new Map(items.map((item) => [keyOf(item), item]));
      let verdict = holds([...objects.values()]);
      if (verdict === true) return [...objects.values()];
      seen = verdict;
      for await (const event of watchFrom<T>(api, collection, metadata.resourceVersion, either)) {
        if (event.type === "ERROR") break;
        if (event.type === "BOOKMARK") continue;
        if (event.type === "DELETED") objects.delete(keyOf(event.object));
        else objects.set(keyOf(event.object), event.object);
        verdict = holds([...objects.values()]);
        if (verdict === true) return [...objects.values()];
        seen = verdict;
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) throw new WaitError(what, deadlineMs, seen);
    throw error;
  }
}

/** As {@link awaitObjects} for one object by name; `holds` is asked with undefined while there is none. */
export async function awaitObject<T extends KubeObject>(
  api: ApiServer,
  { path, name }: { readonly path: string; readonly name: string },
  holds: (object: T | undefined) => true | string,
  options: WaitOptions,
): Promise<T | undefined> {
  const [object] = await awaitObjects<T>(api, { path, name }, ([first]) => holds(first), options);
  return object;
}

export async function list<T>(
  api: ApiServer,
  collection: Collection,
  signal?: AbortSignal,
): Promise<List<T>> {
  return await api.json<List<T>>({ path: `${collection.path}?${selectors(collection)}`, signal });
}

/** Creates or changes an object so that it has these fields (server-side apply, taking over what others own). */
export async function apply<T extends KubeObject>(api: ApiServer, path: string, object: T): Promise<T> {
  return await api.json<T>({
    method: "PATCH",
    path: `${path}/${object.metadata.name}?fieldManager=rehome&force=true`,
    contentType: "application/apply-patch+yaml",
    body: object,
  });
}

/** Merges into an object. @param path of the object, or of a subresource of it. */
export async function merge<T>(api: ApiServer, path: string, patch: object): Promise<T> {
  return await api.json<T>({ method: "PATCH", path, body: patch });
}

/**
 * Sets annotations of an object, or removes them with null, unless it is so already: on the object as it was read before
 * `check`, so that an attempt that is frozen in between changes nothing that another has decided since.
 * @param check throws when a newer attempt has taken over
 * @throws ApiError 404 where there is no such object
 */
export async function annotateChecked(
  api: ApiServer,
  path: string,
  annotations: Readonly<Record<string, string | null>>,
  check: () => Promise<void>,
): Promise<void> {
  for (;;) {
    const { metadata } = await api.json<KubeObject>({ path });
    const now = metadata.annotations ?? {};
    if (Object.entries(annotations).every(([name, value]) => (now[name] ?? null) === value)) return;
    await check();
    const { resourceVersion } = metadata;
    try {
      await merge(api, path, { metadata: { resourceVersion, annotations } });
      return;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error;
    }
  }
}

/** Deletes an object unless it is gone already. */
export async function removeObject(api: ApiServer, path: string, body?: object): Promise<void> {
  try {
    await api.json({ method: "DELETE", path, ...(body && { body }) });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
  }
}

async function* watchFrom<T>(
  api: ApiServer,
  collection: Collection,
  from: string,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<T>> {
  const query = new URLSearchParams({ watch: "1", resourceVersion: from, allowWatchBookmarks: "true" });
  const path = `${collection.path}?${selectors(collection)}${query.toString()}`;
  for await (const line of api.lines({ path, signal })) yield JSON.parse(line) as WatchEvent<T>;
}

/** Selectors as the beginning of a query, with an ampersand behind each. */
export function selectors({ name, labels }: Pick<Collection, "name" | "labels">): string {
  const query = new URLSearchParams();
  if (name !== undefined) query.set("fieldSelector", `metadata.name=${name}`);
  if (labels !== undefined) {
    const pairs = Object.entries(labels).map(([label, value]) => `${label}=${value}`);
    query.set("labelSelector", pairs.join(","));
  }
  const text = query.toString();
  return text === "" ? "" : `${text}&`;
}

function keyOf({ metadata }: KubeObject): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}
