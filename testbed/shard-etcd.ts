import { join } from "node:path";
import type { ClientTls } from "./certificates.ts";
import { EtcdClusterBed } from "./etcd-cluster.ts";
import { prepareEtcd } from "./etcd.ts";
import type { Server } from "./process.ts";

export interface ShardEtcdOptions {
  /** Members of each shard's etcd. Default one. */
  readonly etcdMembers?: 1 | 3;
  /** Flushing of etcds of one member; see {@link prepareEtcd}. */
  readonly fsync?: boolean;
}

/** The etcd that only one shard uses. */
export interface ShardEtcd {
  /** Client URLs of its members. */
  readonly endpoints: readonly string[];
  readonly tls: ClientTls;
  /** One for each member, in the order of `endpoints`; to be started together. */
  readonly servers: readonly Server[];
}

/** Chooses ports and makes certificates; starts nothing. */
export async function prepareShardEtcd(
  dir: string,
  name: string,
  options: ShardEtcdOptions,
): Promise<ShardEtcd> {
  if (options.etcdMembers === 3) {
    const bed = await EtcdClusterBed.create(join(dir, name));
    const members = await bed.prepare([1, 2, 3].map((number) => `${name}-${number}`));
    return { endpoints: members.map(({ endpoint }) => endpoint), tls: bed.tls, servers: bed.found(members) };
  }
  const etcd = await prepareEtcd({ dir, name, tls: true, fsync: options.fsync ?? false });
  return { endpoints: [etcd.endpoint], tls: etcd.tls!, servers: [etcd.server] };
}
