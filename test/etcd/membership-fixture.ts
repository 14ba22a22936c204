import { mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EtcdCluster } from "../../etcd/membership/cluster.ts";
import { listMembers } from "../../etcd/membership/converge.ts";
import { readTls } from "../../etcd/membership/member.ts";
import { addLearner } from "../../etcd/membership/operations.ts";
import type { Site, Step } from "../../etcd/membership/plan.ts";
import { permitStep } from "../../etcd/membership/survey.ts";
import type { Member, MemberId, Wait } from "../../etcd/membership/types.ts";
import { prefixRange } from "../../etcd/keys.ts";
import { Store, put } from "../../etcd/store.ts";
import { EtcdClusterBed } from "../../testbed/etcd-cluster.ts";
import type { ClusterMember } from "../../testbed/etcd-cluster.ts";

export const LIMIT = { maxLagRevisions: 100 };

export function within(deadlineMs: number): Wait {
  return { signal: new AbortController().signal, deadlineMs };
}

/** Three members of a source and addresses of three more of a destination. */
export async function startCluster() {
  const dir = mkdtempSync(join(tmpdir(), "rehome-membership-"));
  const bed = await EtcdClusterBed.create(dir);
  const source = await bed.prepare(["s0", "s1", "s2"]);
  const destination = await bed.prepare(["d0", "d1", "d2"]);
  await bed.start(source);
  const open = (members: readonly ClusterMember[], options: { callTimeoutMs?: number } = {}) =>
    new EtcdCluster({
      name: "etcd-main",
      endpoints: members.map(({ endpoint }) => endpoint),
      tls: readTls(bed.tls),
      ...options,
    });
  const cluster = open([...source, ...destination]);
  const siteOf = ({ peerUrls }: Member): Site =>
    source.some(({ peerUrl }) => peerUrls.includes(peerUrl)) ? "source" : "destination";
  return {
    bed,
    source,
    destination,
    cluster,
    open,
    store(members: readonly ClusterMember[]) {
      const endpoints = members.map(({ endpoint }) => endpoint);
      return new Store({ name: "etcd-main", endpoints, prefix: "/registry", tls: bed.tls });
    },
    async idOf(member: ClusterMember): Promise<MemberId> {
      const { members } = await listMembers(cluster);
      const found = members.find(({ peerUrls }) => peerUrls.includes(member.peerUrl));
      if (found === undefined) throw new Error(`${member.name} is not a member`);
      return found.id;
    },
    siteOf,
    /** Judges a step on this cluster, with the data proven equal. */
    permit: (step: Step) => permitStep(cluster, { siteOf, step, limit: LIMIT, hashesEqual: true }),
    /** Ids of the learners in the member list. */
    async learners(): Promise<MemberId[]> {
      const { members } = await listMembers(cluster);
      return members.filter(({ learner }) => learner).map(({ id }) => id);
    },
    async leader(): Promise<ClusterMember> {
      const { endpoint } = (await cluster.leader()).member;
      const found = [...source, ...destination].find((member) => member.endpoint === endpoint);
      if (found === undefined) throw new Error(`${endpoint} is none of the bed's`);
      return found;
    },
    /** Adds a member as a learner and starts it. */
    async join(member: ClusterMember): Promise<MemberId> {
      const id = await addLearner(cluster, member.peerUrl, within(120_000));
      const { members } = await listMembers(cluster);
      const names = members.map(({ name, peerUrls }) => `${name || member.name}=${peerUrls[0]}`);
      await bed.join(member, names);
      return id;
    },
    async stop() {
      cluster.close();
      await bed.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export type Bed = Awaited<ReturnType<typeof startCluster>>;

/** Writes one key after the other and keeps account of what was acknowledged. */
export class AccountingWriter {
  readonly acknowledged: string[] = [];
  readonly failures: string[] = [];
  slowestMs = 0;
  /** Where the next writes go; a change of it is a change of API server. */
  store: Store;
  #stopped = false;
  readonly #done: Promise<void>;

  constructor(store: Store) {
    this.store = store;
    this.#done = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }

  /** Acknowledged keys that are not there. */
  async lost(): Promise<string[]> {
    const found = new Set<string>();
    for await (const page of this.store.pages(prefixRange("/registry/account/"))) {
      for (const { key } of page) found.add(key);
    }
    return this.acknowledged.filter((key) => !found.has(key));
  }

  async #run(): Promise<void> {
    for (let number = 0; !this.#stopped; number++) {
      const key = `/registry/account/${String(number).padStart(8, "0")}`;
      const begun = performance.now();
      try {
        await this.store.transact([], [put(key, "x".repeat(200))]);
        this.acknowledged.push(key);
      } catch (error) {
        this.failures.push((error as Error).message);
      }
      this.slowestMs = Math.max(this.slowestMs, performance.now() - begun);
    }
  }
}

/** A TCP proxy that can swallow what the server answers: requests arrive, and their outcome is never told. */
export async function startMutingProxy(target: string) {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let muted = false;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
    }
    client.pipe(upstream);
    upstream.on("data", (data) => void (muted || client.write(data)));
    upstream.on("end", () => client.end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mute() {
      muted = true;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
