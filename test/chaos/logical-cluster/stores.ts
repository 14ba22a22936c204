import { EtcdCluster } from "../../../etcd/membership/cluster.ts";
import { listMembers } from "../../../etcd/membership/converge.ts";
import { readTls } from "../../../etcd/membership/member.ts";
import { moveLeader } from "../../../etcd/membership/operations.ts";
import { callEtcd } from "../../../testbed/etcd-gateway.ts";
import type { KcpShard } from "../../../testbed/kcp.ts";
import type { Server } from "../../../testbed/process.ts";
import type { ShardEtcd } from "../../../testbed/shard-etcd.ts";

const DEADLINE_MS = 30_000;

/** What happens to the etcd of a shard. Its members are asked directly, whatever is cut between them and the worker. */
export class ShardStore {
  readonly #name: string;
  readonly #etcd: ShardEtcd;

  constructor({ name, etcd }: KcpShard) {
    this.#name = name;
    this.#etcd = etcd;
  }

  /** Another member leads when this returns. */
  async moveLeader(): Promise<void> {
    using cluster = this.#cluster();
    const { status } = await cluster.leader();
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const { members } = await listMembers(cluster, signal);
    const another = members.find(({ id }) => id !== status.id)!;
    await moveLeader(cluster, another.id, { signal, deadlineMs: DEADLINE_MS });
  }

  /** The process of the member that leads. */
  async leader(): Promise<Server> {
    using cluster = this.#cluster();
    const { member } = await cluster.leader();
    return this.#etcd.servers[this.#etcd.endpoints.indexOf(member.endpoint)]!;
  }

  /** All history up to now is forgotten. */
  async compact(): Promise<void> {
    const { header } = await this.#call("/v3/kv/range", { key: btoa("compact"), count_only: true });
    await this.#call("/v3/kv/compaction", { revision: (header as { revision: string }).revision });
  }

  /** As if the disk quota were used up: etcd refuses every put until disposed. */
  async raiseNoSpace(): Promise<AsyncDisposable> {
    using cluster = this.#cluster();
    const { status } = await cluster.leader();
    const alarm = { memberID: BigInt(`0x${status.id}`).toString(), alarm: "NOSPACE" };
    await this.#call("/v3/maintenance/alarm", { ...alarm, action: "ACTIVATE" });
    const takeBack = async () =>
      void (await this.#call("/v3/maintenance/alarm", { ...alarm, action: "DEACTIVATE" }));
    return { [Symbol.asyncDispose]: takeBack };
  }

  #cluster(): EtcdCluster {
    const { endpoints, tls } = this.#etcd;
    return new EtcdCluster({ name: `etcd of ${this.#name}`, endpoints, tls: readTls(tls) });
  }

  async #call(path: string, body: object): Promise<Record<string, unknown>> {
    return await callEtcd(this.#etcd.endpoints[0]!, this.#etcd.tls, path, body);
  }
}
