import type { LogicalClusterMigrationInput } from "../../inputs/logical-cluster-migration.ts";
import type { Conflict } from "../../etcd/late.ts";
import type { FenceKind } from "../../kubernetes/kcp/probe.ts";

/** What every step is told. */
export interface Subject {
  /** Id of the move, the same for all its steps and attempts: holder of the lock (etcd/token.ts). */
  readonly move: string;
  /** Id of the logical cluster. */
  readonly cluster: string;
  readonly from: string;
  readonly to: string;
  readonly fence: FenceKind;
  readonly revisions: LogicalClusterMigrationInput["revisions"];
}

/** What Preflight found. Revisions are decimal strings: they do not fit a JSON number. */
export interface Admission {
  readonly input: LogicalClusterMigrationInput;
  readonly cluster: string;
  readonly path: string;
  readonly from: string;
  readonly to: string;
  readonly fence: FenceKind;
  readonly keys: number;
  readonly families: { readonly family: string; readonly keys: number }[];
  /** By how many revisions the origin is ahead; 0 when it is not. */
  readonly revisionGap: string;
  readonly warnings: readonly string[];
}

export interface Alignment {
  readonly from: string;
  readonly to: string;
  readonly puts: number;
}

export interface Copied {
  /** The origin's revision that was copied. */
  readonly revision: string;
  readonly keys: number;
  readonly bytes: number;
  readonly written: number;
  readonly deleted: number;
  readonly tombstones: number;
  /** Schema UIDs of bound CRDs that the destination lacked. */
  readonly seededCrds: readonly string[];
}

export interface CaughtUp {
  readonly position: string;
  readonly changes: number;
  readonly lagMs: number;
}

export interface FamilyProof {
  readonly family: string;
  readonly keys: number;
  readonly bytes: number;
  readonly digest: string;
}

export interface Verified {
  /** Revision of the origin, and of the destination, that were compared. Proofs of older workers have only the first. */
  readonly position: string;
  readonly destinationRevision?: string;
  readonly keys: number;
  readonly bytes: number;
  readonly families: readonly FamilyProof[];
  readonly allowed: readonly { readonly key: string; readonly rule: string }[];
  readonly allowedTotal: number;
  readonly unequal: number;
  readonly samples: readonly string[];
}

/** From when until when a fence may have refused users, ms since the epoch on the workers' clocks. */
export interface FenceSpan {
  readonly from: number;
  readonly until: number;
}

/** Times are ms since the epoch on the worker's clock. */
export interface Switched {
  /** The fence was asked for. */
  readonly fenceAt: number;
  /** Every replica of the origin was seen to refuse new requests. */
  readonly fencedAt: number;
  /** What was still open for the cluster at the origin had ended. Moves that began before there was a cut have none. */
  readonly cutAt?: number;
  /** The last change of the origin was at the destination. */
  readonly drainedAt: number;
  /** Counts and changed keys were compared. */
  readonly checkedAt: number;
  /** The LogicalCluster object was at the destination. */
  readonly switchedAt: number;
  /** Origin revision up to which everything was carried over. */
  readonly position: string;
  /** Changes carried over inside the fence. */
  readonly changes: number;
  /** Keys per family were counted on both sides: this many in all. */
  readonly keys: number;
  /** Whether the destination had hosted the cluster before and its cancelled contexts had to be healed. */
  readonly healed: boolean;
  /** Fences that came off again before this one, the oldest first. */
  readonly earlierFences?: readonly FenceSpan[];
}

export interface Routed {
  /** When the last front-proxy was seen to serve from the destination, ms since the epoch. */
  readonly routedAt: number;
  readonly frontProxies: number;
  readonly leftInPlace?: readonly string[];
}

export interface Cleaned {
  readonly deleted: number;
  readonly lateWrites: number;
  readonly conflicts: readonly Conflict[];
  /** The origin's history since the drain was compacted before it was read: late deletions cannot be told any more. */
  readonly historyLost: boolean;
}

export interface Finished {
  readonly leftInPlace: readonly string[];
}

/** The result of a move. */
export interface MoveReport {
  readonly kind: "logicalClusterMigration";
  readonly cluster: string;
  readonly path: string;
  readonly from: string;
  readonly to: string;
  readonly dryRun: boolean;
  readonly verified: boolean;
  readonly keys: number;
  readonly bytes: number;
  readonly fence: FenceKind;
  /**
   * From asking for the fence until every front-proxy served from the destination, in ms: no request is refused after it,
   * and before it only by fences that came off again. The parts add up to the total.
   */
  readonly outage?: {
    readonly totalMs: number;
    readonly fencingMs: number;
    readonly cutMs: number;
    readonly drainMs: number;
    readonly checkMs: number;
    readonly switchMs: number;
    readonly routingMs: number;
    /** Fences that came off again before, because the move did not complete within one, or a worker died: not in the total. */
    readonly earlier?: { readonly fences: number; readonly ms: number };
  };
  readonly phases: readonly { readonly name: string; readonly ms: number }[];
  /** What a dry run would copy. */
  readonly families?: Admission["families"];
  readonly alignment?: Alignment;
  readonly copied?: Copied;
  readonly verification?: Verified;
  readonly switched?: Switched;
  readonly cleaned?: Cleaned;
  readonly leftInPlace: readonly string[];
  readonly warnings: readonly string[];
}

/** The steps of the kind, as the workflow calls them. */
export interface LogicalClusterActivities {
  preflight(raw: unknown): Promise<Admission>;
  lock(subject: Subject): Promise<void>;
  alignRevisions(subject: Subject): Promise<Alignment>;
  copySnapshot(subject: Subject): Promise<Copied>;
  catchUp(subject: Subject): Promise<CaughtUp>;
  follow(subject: Subject): Promise<void>;
  verify(subject: Subject): Promise<Verified>;
  takeTurn(subject: Subject): Promise<void>;
  prepareFence(subject: Subject): Promise<void>;
  cutover(
    subject: Subject & {
      fenceBudgetMs: number;
      verifiedAt: string;
      verifiedAtDestination?: string | undefined;
      /** When that proof was made, ms since the epoch by Temporal's clock. Absent where the workflow judges its age. */
      provenAt?: number | undefined;
    },
  ): Promise<Switched>;
  awaitRouting(
    subject: Subject & {
      position: string;
      /** Revision of the origin before the first fence, also of one that was taken off again. */
      fencedSince?: string | undefined;
    },
  ): Promise<Routed>;
  cleanOrigin(subject: Subject & { position: string }): Promise<Cleaned>;
  finalize(subject: Subject & { path: string; kept?: readonly string[] | undefined }): Promise<Finished>;
  dismantleFence(subject: Subject): Promise<void>;
  clearDestination(subject: Subject): Promise<void>;
  unlock(subject: Subject): Promise<void>;
}
