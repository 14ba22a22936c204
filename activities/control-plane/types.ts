import type { ControlPlaneMigrationInput } from "../../inputs/control-plane-migration.ts";
import type {
  ApiServerAddress,
  CarriedOver,
  DnsRecordState,
  MemberAddress,
  Side,
  StoppedController,
} from "../../hosting/types.ts";

export type { DnsRecordState } from "../../hosting/types.ts";

/** What every step is told. */
export interface ControlPlaneSubject {
  /** Id of the move, the same for all its steps and attempts. */
  readonly move: string;
  readonly controlPlane: string;
  readonly from: string;
  readonly to: string;
  /** The move has claimed the control plane, and its undo is not done where the claim is gone. */
  readonly claimed?: boolean;
}

export interface ControlPlaneAdmission {
  readonly input: ControlPlaneMigrationInput;
  readonly controlPlane: string;
  readonly from: string;
  readonly to: string;
  readonly dnsName: string;
  readonly vpn: boolean;
  readonly controllers: readonly string[];
  readonly etcds: readonly EtcdState[];
  readonly record: DnsRecordState;
}

/** One etcd as it was found before the move. Revisions and ids are strings: they do not fit a JSON number. */
export interface EtcdState {
  readonly name: string;
  readonly heartbeatMs: number;
  readonly electionMs: number;
  readonly version?: string;
  readonly clusterId?: string;
  readonly revision?: string;
  readonly dbBytes?: number;
  /** Why etcd has not been asked yet, and when it will be. */
  readonly unchecked?: string;
}

/** Where the members of one etcd are, on both sides. Kept in the move, so that a seed which is cut off need not be asked. */
export interface EtcdLayout {
  readonly name: string;
  readonly source: readonly MemberAddress[];
  /** The source members' peer URLs before the move, by pod. */
  readonly inner: Readonly<Record<string, string>>;
  /** Empty until the destination has the Services. */
  readonly destination: readonly MemberAddress[];
  /** What etcd said when its members had been exposed. */
  readonly found?: EtcdState;
}

/** What steps on etcd's members are told besides. */
export interface StretchedSubject extends ControlPlaneSubject {
  readonly layouts: readonly EtcdLayout[];
  readonly maxLagRevisions: number;
}

export interface MemberRef {
  readonly etcd: string;
  /** etcd's name for it. */
  readonly member: string;
  /** Member id in hexadecimal, as etcdctl prints it. */
  readonly id: string;
  readonly peerUrl: string;
}

export interface Joined {
  readonly members: readonly MemberRef[];
  /** Round trip between the seeds as the first member to join measured it, in ms. */
  readonly roundTripMs: number;
}

export interface DnsSwitch {
  readonly fromValues: readonly string[];
  readonly toRecord: DnsRecordState;
}

export interface SwitchedDns {
  /** When every authoritative server had it, ms since the epoch. */
  readonly switchedAt: number;
}

/** Proof that members hold the same data: etcd's HashKV at one revision. */
export interface HashProof {
  readonly etcd: string;
  readonly revision: string;
  readonly compactRevision: string;
  readonly hash: number;
  readonly members: number;
}

export interface Soaked {
  readonly checks: number;
  readonly proofs: readonly HashProof[];
}

/** The source's controllers, none of which runs. */
export interface SourceStopped {
  readonly stopped: readonly StoppedController[];
  /** When they were ordered to stop, ms since the epoch. */
  readonly orderedAt: number;
}

export interface HandedOver {
  readonly stopped: readonly StoppedController[];
  /** At most so long none ran: from the order to stop those of the source until all ran at the destination. */
  readonly withoutControllersMs: number;
}

export interface Drained {
  /** Requests that were still running at the source when its API servers were told to end. */
  readonly longRunning: number;
  /** How long they were waited for. */
  readonly waitedMs: number;
}

export interface Committed {
  readonly proofs: readonly HashProof[];
  /** How long each etcd had an even number of voters, in ms. */
  readonly evenMs: Readonly<Record<string, number>>;
  /** For how long API servers were told to let writes wait, while leaders were handed over, in ms; absent: they were not. */
  readonly writesHeldMs?: number;
  readonly committedAt: number;
}

export interface Removed {
  readonly voters: readonly MemberRef[];
}

export interface ControlPlaneReport {
  readonly kind: "controlPlaneMigration";
  readonly controlPlane: string;
  readonly from: string;
  readonly to: string;
  readonly dryRun: boolean;
  readonly verified: boolean;
  readonly etcds: readonly EtcdState[];
  readonly phases: readonly { readonly name: string; readonly ms: number }[];
  readonly carriedOver?: CarriedOver;
  readonly roundTripMs?: number;
  readonly soaked?: Soaked;
  readonly handedOver?: HandedOver;
  readonly drained?: Drained;
  readonly committed?: Committed;
  readonly voters?: readonly MemberRef[];
  readonly leftInPlace: readonly string[];
}

interface UnlessLost {
  /** Where the destination is lost, it is not done, and nobody waits. */
  readonly unlessLost?: boolean;
}

/** The steps of the kind, as the workflow calls them. */
export interface ControlPlaneActivities {
  preflightControlPlane(raw: unknown): Promise<ControlPlaneAdmission>;
  claimControlPlane(subject: ControlPlaneSubject): Promise<void>;
  releaseControlPlane(subject: ControlPlaneSubject): Promise<void>;
  exposeSourcePeers(subject: ControlPlaneSubject): Promise<readonly EtcdLayout[]>;
  hideSourcePeers(subject: ControlPlaneSubject): Promise<void>;
  setRecordTtl(subject: ControlPlaneSubject & { record: DnsRecordState }): Promise<{ readonly at: number }>;
  restoreRecordTtl(subject: ControlPlaneSubject & { record: DnsRecordState }): Promise<void>;
  copySecrets(subject: ControlPlaneSubject): Promise<CarriedOver>;
  exposeDestinationPeers(subject: StretchedSubject): Promise<readonly EtcdLayout[]>;
  clearDestinationSeed(subject: ControlPlaneSubject): Promise<void>;
  joinDestinationPeers(
    subject: StretchedSubject & { maxRoundTripMs: number; etcds: readonly EtcdState[] },
  ): Promise<Joined>;
  removeDestinationPeers(subject: StretchedSubject): Promise<void>;
  startDestinationApiServers(subject: ControlPlaneSubject): Promise<ApiServerAddress>;
  stopDestinationApiServers(subject: ControlPlaneSubject): Promise<void>;
  bridgeVpn(subject: ControlPlaneSubject & UnlessLost & { side: Side }): Promise<void>;
  dismantleVpnBridge(subject: ControlPlaneSubject & UnlessLost & { side: Side }): Promise<void>;
  switchDns(subject: ControlPlaneSubject & DnsSwitch): Promise<SwitchedDns>;
  switchDnsBack(subject: ControlPlaneSubject & DnsSwitch): Promise<SwitchedDns>;
  moveVpnClients(subject: ControlPlaneSubject & UnlessLost & { towards: Side }): Promise<void>;
  soak(subject: StretchedSubject & { soakMs: number }): Promise<Soaked>;
  stopSourceControllers(subject: ControlPlaneSubject): Promise<SourceStopped>;
  /** @param subject.after they are stopped already; without it this step does it. */
  handOverControllers(subject: ControlPlaneSubject & { after?: SourceStopped }): Promise<HandedOver>;
  /** @param subject.onlyStopped none has been started at the destination, which is not asked. */
  returnControllers(subject: ControlPlaneSubject & UnlessLost & { onlyStopped?: boolean }): Promise<void>;
  drainSourceApiServers(subject: ControlPlaneSubject & { drainMs: number }): Promise<Drained>;
  restartSourceApiServers(subject: ControlPlaneSubject): Promise<void>;
  commitQuorum(subject: StretchedSubject): Promise<Committed>;
  removeSourcePeers(subject: StretchedSubject): Promise<Removed>;
  finishBackups(subject: ControlPlaneSubject): Promise<void>;
  /** @param subject.keepsClaim the workflow gives the claim back by itself; without it this step does. */
  cleanUpSource(
    subject: ControlPlaneSubject & {
      record: DnsRecordState;
      keepsClaim?: boolean;
    } & Partial<StretchedSubject>,
  ): Promise<readonly string[]>;
}
