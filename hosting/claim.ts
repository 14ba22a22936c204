import { SupersededError } from "../etcd/errors.ts";
import type { Permit } from "../kubernetes/api-server.ts";
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
/**
 * Of the newest attempt: on what bears the claim since it began, on a workload since it scaled it. It stays when the move
 * is over, because an attempt of that move may still wake up.
 */
export const EPOCH = "rehome.dev/epoch";

/** A process that has slept for longer than this may have been given up meanwhile. */
const FRESH_MS = 5_000;

/** A permit that is asked for again when so much time has passed until its answer was read that it may be out of date. */
export function fresh(permit: Permit): Permit {
  return async (signal) => {
    for (let askedAt = 0; Date.now() - askedAt > FRESH_MS;) {
      askedAt = Date.now();
      await permit(signal);
    }
  };
}

export function holderOf(object: KubeObject | undefined): string | undefined {
  return object?.metadata.annotations?.[CLAIM];
}

/**
 * The note of this attempt's epoch that an object lacks; none where it has it.
 * @param where for the error. @throws SupersededError when a newer attempt has left its own.
 */
export function missingEpoch({ metadata }: KubeObject, epoch: number, where: string): Record<string, string> {
  const newest = Number(metadata.annotations?.[EPOCH] ?? 0);
  if (newest > epoch) throw new SupersededError(`${where} (${EPOCH} ${newest}, this attempt's is ${epoch})`);
  return newest === epoch ? {} : { [EPOCH]: String(epoch) };
}

/** The patch that notes it. @throws SupersededError */
export function raising(object: KubeObject, epoch: number, where: string): object | undefined {
  return noting(missingEpoch(object, epoch, where));
}

/** The patch that adds annotations; undefined where there are none to add. */
export function noting(annotations: Readonly<Record<string, string>>): object | undefined {
  return Object.keys(annotations).length === 0 ? undefined : { metadata: { annotations } };
}
