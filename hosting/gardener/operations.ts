import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge, retryConflicts } from "../../kubernetes/converge.ts";
import { awaitObject, list, removeObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { pause } from "../../kubernetes/wait.ts";
import { CONFIRM_DELETION, OPERATION, OPERATION_TIMESTAMP } from "./names.ts";

export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown" | "Progressing";
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
  readonly lastUpdateTime?: string;
}

/** What all objects have that Gardener's controllers work on (extensions/v1alpha1, DefaultStatus). */
export interface Operated extends KubeObject {
  readonly metadata: KubeObject["metadata"] & {
    readonly generation?: number;
    readonly finalizers?: readonly string[];
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly observedGeneration?: number;
    readonly lastOperation?: {
      readonly type: string;
      readonly state: string;
      readonly description?: string;
    };
    readonly lastError?: { readonly description?: string };
    readonly state?: unknown;
    readonly resources?: unknown;
    readonly conditions?: readonly Condition[];
  };
}

export interface Waits {
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

export type Operation = "migrate" | "restore" | "reconcile";

const ASK_AGAIN_MS = 1_000;
const LAST_OPERATION = { migrate: "Migrate", restore: "Restore" } as const;

/** A controller has given up: its last operation is `Failed`, which it does not try again by itself. */
export class OperationFailedError extends Error {
  override readonly name = "OperationFailedError";
}

/** All objects of a collection; none where the seed does not know the kind. */
export async function listOrNone<T>(
  api: ApiServer,
  path: string,
  signal: AbortSignal,
): Promise<readonly T[]> {
  try {
    return await retryConflicts(async () => (await list<T>(api, { path }, signal)).items, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return [];
    throw error;
  }
}

/** Whether an operation is done: the controller says so, and has taken the request away. */
function isDone(object: Operated | undefined, operation: Operation): true | string {
  if (object === undefined) return "not there";
  const { lastOperation, lastError, observedGeneration } = object.status ?? {};
  const found = lastOperation ? `${lastOperation.type} ${lastOperation.state}` : "no operation yet";
  const trouble = lastError?.description ?? "";
  if (object.metadata.annotations?.[OPERATION] !== undefined) return `${found}, still asked for. ${trouble}`;
  const state = operation === "reconcile" ? "Succeeded" : `${LAST_OPERATION[operation]} Succeeded`;
  if (!found.endsWith(state)) return `${found}. ${trouble}`;
  const current = operation !== "reconcile" || observedGeneration === object.metadata.generation;
  return current || `generation ${observedGeneration} observed, ${object.metadata.generation} is wanted`;
}

/**
 * Has a controller migrate, restore or reconcile an object, and waits until it has. Does nothing when that is done.
 * @param change what is to be different in the object, in the same request; undefined when it is so already.
 * @throws OperationFailedError when the controller has given up, WaitError
 */
export async function operate(
  api: ApiServer,
  { path, name }: { readonly path: string; readonly name: string },
  operation: Operation,
  { deadlineMs, signal }: Waits,
  change: (object: Operated) => object | undefined = () => undefined,
): Promise<Operated> {
  const ask = (object: Operated) => {
    const wanted = change(object);
    const inFlight = object.metadata.annotations?.[OPERATION] === operation;
    if (wanted === undefined && (inFlight || isDone(object, operation) === true)) return undefined;
    const annotations = { [OPERATION]: operation, [OPERATION_TIMESTAMP]: new Date().toISOString() };
    return { ...wanted, metadata: { annotations } };
  };
  const holds = (object: Operated | undefined) => {
    const last = object?.status?.lastOperation;
    const mine = operation === "reconcile" || last?.type === LAST_OPERATION[operation];
    const idle = object?.metadata.annotations?.[OPERATION] === undefined;
    if (mine && idle && last?.state === "Failed")
      throw new OperationFailedError(
        `${api.name}: ${operation} of ${name} failed: ${last.description ?? ""}`,
      );
    // A controller takes the request away with which it began, and with it the one that was made meanwhile.
    const isLost = !mine && idle && (last?.state === "Succeeded" || last?.state === "Failed");
    return isLost || isDone(object, operation);
  };
  const what = `${name} has been asked to ${operation} and did (${api.name})`;
  const end = performance.now() + deadlineMs;
  for (;;) {
    await converge<Operated>(api, `${path}/${name}`, ask, signal);
    const options = { what, deadlineMs: Math.max(0, Math.ceil(end - performance.now())), signal };
    const found = (await awaitObject<Operated>(api, { path, name }, holds, options))!;
    if (isDone(found, operation) === true) return found;
    await pause(ASK_AGAIN_MS, signal);
  }
}

/**
 * Deletes an object and waits until it is gone, all its controllers' work included.
 * @param shallow takes its finalizers away, so that no controller touches what the object stands for.
 */
export async function deleteObject(
  api: ApiServer,
  { path, name }: { readonly path: string; readonly name: string },
  { deadlineMs, signal }: Waits,
  shallow = false,
): Promise<void> {
  const own = `${path}/${name}`;
  const attempt = async () => {
    const object = await converge<Operated>(
      api,
      own,
      ({ metadata }) => {
        const confirmed = metadata.annotations?.[CONFIRM_DELETION] === "true";
        const held = shallow && (metadata.finalizers ?? []).length > 0;
        if (confirmed && !held) return undefined;
        return {
          metadata: { annotations: { [CONFIRM_DELETION]: "true" }, ...(shallow && { finalizers: null }) },
        };
      },
      signal,
    );
    // A controller that has put its finalizer back meanwhile would do its work: the version tells.
    const { uid, resourceVersion } = object.metadata;
    await removeObject(api, own, { preconditions: { uid, ...(shallow && { resourceVersion }) } });
  };
  try {
    await retryConflicts(attempt, signal);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
  }
  const gone = (object: Operated | undefined) =>
    object === undefined || `held by ${object.metadata.finalizers?.join(", ")}`;
  const what = `${name} is gone (${api.name})`;
  await awaitObject<Operated>(api, { path, name }, gone, { what, deadlineMs, signal });
}
