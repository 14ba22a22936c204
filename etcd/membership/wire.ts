import { fileURLToPath } from "node:url";
import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

/**
 * etcd's membership and maintenance calls as they are on the wire. Not through the package etcd3: its methods of these
 * services are rarely used and some cannot work (`maintenance.hashKV` looks for a method of another name).
 */

export interface Header {
  /** Ids and counters are 64 bit: decimal strings here. */
  readonly cluster_id: string;
  readonly member_id: string;
  readonly revision: string;
  readonly raft_term: string;
}

export interface WireMember {
  readonly ID: string;
  readonly name: string;
  readonly peerURLs: readonly string[];
  readonly clientURLs: readonly string[];
  readonly isLearner: boolean;
}

export interface MemberListResponse {
  readonly header: Header;
  readonly members: readonly WireMember[];
}

/** Every call that rehome makes: what goes in and what comes back. */
export interface Calls {
  MemberList: [request: { linearizable: boolean }, response: MemberListResponse];
  MemberAdd: [
    request: { peerURLs: readonly string[]; isLearner: boolean },
    response: MemberListResponse & { readonly member: WireMember },
  ];
  MemberPromote: [request: { ID: string }, response: MemberListResponse];
  MemberRemove: [request: { ID: string }, response: MemberListResponse];
  MemberUpdate: [request: { ID: string; peerURLs: readonly string[] }, response: MemberListResponse];
  Status: [
    request: object,
    response: {
      readonly header: Header;
      readonly version: string;
      readonly dbSize: string;
      readonly dbSizeInUse: string;
      readonly leader: string;
      readonly raftIndex: string;
      readonly raftTerm: string;
      readonly raftAppliedIndex: string;
      readonly errors: readonly string[];
      readonly isLearner: boolean;
    },
  ];
  HashKV: [
    request: { revision: string },
    response: { readonly header: Header; readonly hash: number; readonly compact_revision: string },
  ];
  Alarm: [
    request: { action: "GET" },
    response: {
      readonly header: Header;
      readonly alarms: readonly { readonly memberID: string; readonly alarm: string }[];
    },
  ];
  MoveLeader: [request: { targetID: string }, response: { readonly header: Header | null }];
}

export type CallName = keyof Calls;

const definitions = loadSync(fileURLToPath(new URL("etcd.proto", import.meta.url)), {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  arrays: true,
});

const methods: Readonly<Record<string, MethodDefinition<object, object>>> = {
  ...(definitions["etcdserverpb.Cluster"] as ServiceDefinition),
  ...(definitions["etcdserverpb.Maintenance"] as ServiceDefinition),
};

export function methodOf(name: CallName): MethodDefinition<object, object> {
  const method = methods[name];
  if (method === undefined) throw new Error(`etcd.proto has no call ${name}`);
  return method;
}
