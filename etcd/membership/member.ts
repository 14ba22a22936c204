import { readFileSync } from "node:fs";
import { Client, Metadata, credentials } from "@grpc/grpc-js";
import type { ChannelCredentials, ServiceError } from "@grpc/grpc-js";
import { KEEPALIVE_MS } from "../store.ts";
import type { StoreOptions } from "../store.ts";
import { MembershipError, asMembershipError } from "./errors.ts";
import { idFromWire, idToWire } from "./types.ts";
import type { Alarm, Member, MemberHash, MemberId, MemberList, MemberStatus } from "./types.ts";
import { methodOf } from "./wire.ts";
import type { CallName, Calls, Header, WireMember } from "./wire.ts";

/** TLS material as PEM texts, for those who have it in memory. */
export interface EtcdTls {
  readonly ca: string | Buffer;
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  /** The name that the server's certificate carries, where it is not the endpoint's host. */
  readonly serverName?: string | undefined;
}

export interface MemberOptions {
  /** `https://host:port`, or `http://` without TLS. */
  readonly endpoint: string;
  readonly tls?: EtcdTls | undefined;
  /**
   * Deadline of every call, 5 s by default. It is the only one that a membership change has: etcd waits for a change
   * that raft has dropped, because another was under way, as long as the client does.
   */
  readonly callTimeoutMs?: number | undefined;
  /** Calls that are answered by a member of another cluster fail. */
  readonly clusterId?: string | undefined;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

const CALL_TIMEOUT_MS = 5_000;

/** Reads TLS files in the shape of {@link StoreOptions}. */
export function readTls(files: StoreOptions["tls"]): EtcdTls | undefined {
  if (files === undefined) return undefined;
  return {
    ca: readFileSync(files.ca),
    cert: files.cert && readFileSync(files.cert),
    key: files.key && readFileSync(files.key),
  };
}

/** One etcd member: its raw calls, each with a deadline and sent once. All throw {@link MembershipError}. */
export class EtcdMember {
  readonly endpoint: string;
  readonly #client: Client;
  readonly #callTimeoutMs: number;
  readonly #clusterId: string | undefined;

  constructor({ endpoint, tls, callTimeoutMs = CALL_TIMEOUT_MS, clusterId }: MemberOptions) {
    this.endpoint = endpoint;
    this.#callTimeoutMs = callTimeoutMs;
    this.#clusterId = clusterId;
    const serverName = tls?.serverName;
    this.#client = new Client(new URL(endpoint).host, credentialsOf(endpoint, tls), {
      // A membership change is sent once: whether it goes out again is decided after a look at the member list.
      "grpc.enable_retries": 0,
      "grpc.keepalive_time_ms": KEEPALIVE_MS,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 1_000,
      // Channels are shared by default between clients of one address, and closed with the last of them only.
      "grpc.use_local_subchannel_pool": 1,
      ...(serverName && {
        "grpc.ssl_target_name_override": serverName,
        "grpc.default_authority": serverName,
      }),
    });
  }

  close(): void {
    this.#client.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** @param linearizable false shows the member's own, perhaps old, view. Learners refuse both. */
  async memberList(linearizable: boolean, options?: CallOptions): Promise<MemberList> {
    return toMemberList(await this.#call("MemberList", { linearizable }, options));
  }

  async memberAdd(peerUrls: readonly string[], learner: boolean, options?: CallOptions): Promise<Member> {
    const request = { peerURLs: peerUrls, isLearner: learner };
    return toMember((await this.#call("MemberAdd", request, options)).member);
  }

  async memberPromote(id: MemberId, options?: CallOptions): Promise<MemberList> {
    return toMemberList(await this.#call("MemberPromote", { ID: idToWire(id) }, options));
  }

  async memberRemove(id: MemberId, options?: CallOptions): Promise<MemberList> {
    return toMemberList(await this.#call("MemberRemove", { ID: idToWire(id) }, options));
  }

  async memberUpdate(id: MemberId, peerUrls: readonly string[], options?: CallOptions): Promise<MemberList> {
    const request = { ID: idToWire(id), peerURLs: peerUrls };
    return toMemberList(await this.#call("MemberUpdate", request, options));
  }

  async status(options?: CallOptions): Promise<MemberStatus> {
    const answer = await this.#call("Status", {}, options);
    return {
      endpoint: this.endpoint,
      id: idFromWire(answer.header.member_id),
      clusterId: idFromWire(answer.header.cluster_id),
      version: answer.version,
      leader: answer.leader === "0" ? undefined : idFromWire(answer.leader),
      learner: answer.isLearner,
      term: BigInt(answer.raftTerm),
      revision: BigInt(answer.header.revision),
      raftIndex: BigInt(answer.raftIndex),
      raftAppliedIndex: BigInt(answer.raftAppliedIndex),
      dbBytes: Number(answer.dbSize),
      dbBytesInUse: Number(answer.dbSizeInUse),
      errors: answer.errors,
    };
  }

  /** Hash of all that the member held at `revision`. Learners refuse. */
  async hashKv(revision: bigint, options?: CallOptions): Promise<MemberHash> {
    const answer = await this.#call("HashKV", { revision: String(revision) }, options);
    return {
      id: idFromWire(answer.header.member_id),
      endpoint: this.endpoint,
      hash: answer.hash,
      compactRevision: BigInt(answer.compact_revision),
    };
  }

  /** Alarms that are raised at any member of the cluster. */
  async alarms(options?: CallOptions): Promise<Alarm[]> {
    const { alarms } = await this.#call("Alarm", { action: "GET" }, options);
    return alarms.map(({ memberID, alarm }) => ({ member: idFromWire(memberID), alarm }));
  }

  /** Only the leader itself does this; others answer `not-leader`. */
  async moveLeader(target: MemberId, options?: CallOptions): Promise<void> {
    await this.#call("MoveLeader", { targetID: idToWire(target) }, options);
  }

  async #call<Name extends CallName>(
    name: Name,
    request: Calls[Name][0],
    { signal, timeoutMs = this.#callTimeoutMs }: CallOptions = {},
  ): Promise<Calls[Name][1]> {
    signal?.throwIfAborted();
    try {
      const answer = (await this.#send(name, request, timeoutMs, signal)) as Calls[Name][1];
      this.#requireCluster(name, answer.header);
      return answer;
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof MembershipError ? error : asMembershipError(this.endpoint, name, error);
    }
  }

  async #send(name: CallName, request: object, timeoutMs: number, signal?: AbortSignal): Promise<object> {
    const { path, requestSerialize, responseDeserialize } = methodOf(name);
    const { promise, resolve, reject } = Promise.withResolvers<object>();
    const call = this.#client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      new Metadata(),
      { deadline: Date.now() + timeoutMs },
      (error: ServiceError | null, answer?: object) => (error ? reject(error) : resolve(answer as object)),
    );
    const cancel = () => call.cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  #requireCluster(name: CallName, header: Header | null): void {
    if (this.#clusterId === undefined || header === null) return;
    const found = idFromWire(header.cluster_id);
    if (found === this.#clusterId) return;
    const details = `cluster ${found} answered instead of ${this.#clusterId}`;
    throw new MembershipError(this.endpoint, name, "foreign-cluster", details);
  }
}

function credentialsOf(endpoint: string, tls: EtcdTls | undefined): ChannelCredentials {
  if (new URL(endpoint).protocol === "http:") return credentials.createInsecure();
  return credentials.createSsl(pem(tls?.ca), pem(tls?.key), pem(tls?.cert));
}

function pem(text: string | Buffer | undefined): Buffer | null {
  return text === undefined ? null : Buffer.from(text);
}

function toMemberList({ header, members }: { header: Header; members: readonly WireMember[] }): MemberList {
  return { clusterId: idFromWire(header.cluster_id), members: members.map(toMember) };
}

function toMember({ ID, name, peerURLs, clientURLs, isLearner }: WireMember): Member {
  return { id: idFromWire(ID), name, peerUrls: peerURLs, clientUrls: clientURLs, learner: isLearner };
}
