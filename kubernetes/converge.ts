import { setTimeout as delay } from "node:timers/promises";
import { ApiError } from "./api-server.ts";
import type { ApiServer } from "./api-server.ts";
import { merge } from "./objects.ts";
import type { KubeObject } from "./objects.ts";

const CONFLICTS = { attempts: 200, pauseMs: 50 };

/**
 * Does something again as long as others were faster (409): controllers write to the same objects all the time. Also
 * while an API server is not ready for a kind yet (429): its caches of custom resources begin with the first request.
 */
export async function retryConflicts<T>(attempt: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let count = 1; ; count++) {
    try {
      return await attempt();
    } catch (error) {
      const lost = error instanceof ApiError && (error.status === 409 || error.status === 429);
      if (!lost || count === CONFLICTS.attempts) throw error;
      await delay(CONFLICTS.pauseMs, undefined, { signal });
    }
  }
}

/**
 * Reads an object, compares, and changes it only as it was when it was read; begins anew when another was faster.
 * @param change the merge patch, or undefined when nothing is left to do.
 * @returns the object as it is then. @throws ApiError
 */
export async function converge<T extends KubeObject>(
  api: ApiServer,
  path: string,
  change: (object: T) => object | undefined,
  signal: AbortSignal,
  subresource = "",
): Promise<T> {
  return await retryConflicts(async () => {
    const object = await api.json<T>({ path, signal });
    const patch = change(object);
    return patch === undefined
      ? object
      : await merge<T>(api, `${path}${subresource}`, withVersion(patch, object));
  }, signal);
}

function withVersion(patch: { metadata?: object }, { metadata }: KubeObject): object {
  return { ...patch, metadata: { ...patch.metadata, resourceVersion: metadata.resourceVersion } };
}
