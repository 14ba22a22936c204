/** Failures of the data plane that callers tell apart. Every other failure of a store is its client's gRPC error. */

/** The store no longer has the history that was asked for (etcd: "required revision has been compacted"). */
export class CompactedError extends Error {
  override readonly name = "CompactedError";
  /** The oldest revision that the store still has, where it told; else 0. */
  readonly oldest: bigint;
  constructor(store: string, oldest = 0n) {
    super(`${store}: the history asked for has been compacted`);
    this.oldest = oldest;
  }
}

/** etcd v3.6.8, server/etcdserver/apply/apply.go: with the alarm NOSPACE what costs no space goes through. */
export function isFull(error: unknown): boolean {
  return error instanceof Error && error.message.includes("database space exceeded");
}

/** A newer attempt of the same move holds the fencing token: this attempt must stop and write nothing more. */
export class SupersededError extends Error {
  override readonly name = "SupersededError";
  constructor(store: string) {
    super(`${store}: a newer attempt has taken over`);
  }
}

/** The lock of this cluster is not this move's: `holder` is the move that has it, or undefined when nobody does. */
export class LockedError extends Error {
  override readonly name = "LockedError";
  readonly holder: string | undefined;
  constructor(store: string, holder: string | undefined) {
    super(holder === undefined ? `${store}: this move's lock is gone` : `${store}: locked by move ${holder}`);
    this.holder = holder;
  }
}
