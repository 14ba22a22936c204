/** Id of a member in hexadecimal without leading zeros, as etcdctl and etcd's log and metrics print it. */
export type MemberId = string;

/** A member as the member list has it. */
export interface Member {
  readonly id: MemberId;
  /** Empty until the member has started for the first time. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly clientUrls: readonly string[];
  readonly learner: boolean;
}

export interface MemberList {
  readonly clusterId: string;
  readonly members: readonly Member[];
}

/** What one member says about itself. */
export interface MemberStatus {
  readonly endpoint: string;
  readonly id: MemberId;
  readonly clusterId: string;
  readonly version: string;
  /** Undefined while it knows none. */
  readonly leader: MemberId | undefined;
  readonly learner: boolean;
  readonly term: bigint;
  /** Newest revision of the data that it has applied. */
  readonly revision: bigint;
  readonly raftIndex: bigint;
  readonly raftAppliedIndex: bigint;
  readonly dbBytes: number;
  readonly dbBytesInUse: number;
  /** Alarms and "no leader", in etcd's words; empty when all is well. */
  readonly errors: readonly string[];
}

export interface MemberHash {
  readonly id: MemberId;
  readonly endpoint: string;
  readonly hash: number;
  /** Hashes of members with different compaction revisions say nothing about each other. */
  readonly compactRevision: bigint;
}

export interface Alarm {
  readonly member: MemberId;
  /** `NOSPACE` or `CORRUPT`. */
  readonly alarm: string;
}

/** How long a step may take in all, and what ends it early. */
export interface Wait {
  readonly signal: AbortSignal;
  /** From the call on. */
  readonly deadlineMs: number;
}

export interface ChangeOptions extends Wait {
  /**
   * Called right before each call that changes something, so also before those that come after a wait or an unclear
   * answer. What it throws is treated as if the call had failed with it: see `permitStep`.
   */
  readonly permit?: ((signal: AbortSignal) => Promise<void>) | undefined;
}

export function idFromWire(decimal: string): MemberId {
  return BigInt(decimal).toString(16);
}

export function idToWire(id: MemberId): string {
  return BigInt(`0x${id}`).toString();
}
