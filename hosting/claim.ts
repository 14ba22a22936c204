import { setTimeout as delay } from "node:timers/promises";
import { SupersededError } from "../etcd/errors.ts";
import type { ApiServer } from "../kubernetes/api-server.ts";
import { awaitObject } from "../kubernetes/objects.ts";
import type { KubeObject } from "../kubernetes/objects.ts";

/**
 * Who works on a control plane: one attempt of one step of a move. Attempts are ranked by their epoch, so that one that
 * was given up (frozen, or cut off from Temporal) and goes on beside its successor, or beside an undo, changes nothing
 * (Kleppmann, "How to do distributed locking", 2016).
 */
export interface Claim {
  readonly move: string;
  readonly epoch: number;
}

/** For those who only look. */
export const NOBODY: Claim = { move: "", epoch: 0 };

/** The move that holds a control plane. */
export const CLAIM = "rehome.dev/move";
/** Of the newest attempt: on what bears the claim since it began, on a workload since it scaled it. */
export const EPOCH = "rehome.dev/epoch";

const HOUR_MS = 3_600_000;
const ASK_AGAIN_MS = 1_000;

export function holderOf(object: KubeObject | undefined): string | undefined {
  return object?.metadata.annotations?.[CLAIM];
}

/**
 * The note of this attempt's epoch that an object lacks; none where it has it.
 * @param where for the error. @throws SupersededError when a newer attempt has left its own.
 */
export function missingEpoch({ metadata }: KubeObject, epoch: number, where: string): Record<string, string> {
  const newest = Number(metadata.annotations?.[EPOCH] ?? 0);
  if (newest > epoch) throw new SupersededError(where);
  return newest === epoch ? {} : { [EPOCH]: String(epoch) };
}

/**
 * Waits until another move, or a newer attempt of this one, holds what bears the claim. An API server that does not
 * answer is asked again. @throws the signal's reason
 */
export async function awaitTakeover(
  api: ApiServer,
  { path, name }: { readonly path: string; readonly name: string },
  { move, epoch }: Claim,
  signal: AbortSignal,
): Promise<void> {
  const isTaken = (object: KubeObject | undefined) => {
    const holder = holderOf(object) ?? move;
    const newest = Number(object?.metadata.annotations?.[EPOCH] ?? 0);
    return holder !== move || newest > epoch || "still held";
  };
  const options = { what: `${name} is taken over (${api.name})`, deadlineMs: HOUR_MS, signal };
  for (;;) {
    try {
      await awaitObject(api, { path, name }, isTaken, options);
      return;
    } catch {
      signal.throwIfAborted();
      await delay(ASK_AGAIN_MS, undefined, { signal });
    }
  }
}
