import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { CertificateAuthority } from "./certificates.ts";
import type { CertificateFiles, ClientTls } from "./certificates.ts";
import { getWithCertificate } from "./https-probe.ts";
import { freePorts } from "./ports.ts";
import { Server, stopAll } from "./process.ts";
import { findProgram } from "./programs/find.ts";

/** Addresses of up to this many members; each has one of its own, as members on different machines do. */
const hosts = Array.from({ length: 8 }, (_, index) => `127.0.0.${index + 11}`);

export interface ClusterMember {
  readonly name: string;
  /** `https://127.0.0.11:20001`. */
  readonly endpoint: string;
  readonly peerUrl: string;
  readonly dataDir: string;
  /** Set by {@link EtcdClusterBed.start}, `found` and `join`. */
  server: Server | undefined;
}

interface Certificates {
  readonly clientAuthority: CertificateAuthority;
  readonly peerAuthority: CertificateAuthority;
  readonly server: CertificateFiles;
  readonly peer: CertificateFiles;
}

/** An etcd cluster of several members with TLS between them and towards clients, which can grow and shrink. */
export class EtcdClusterBed {
  readonly tls: ClientTls;
  readonly #dir: string;
  readonly #program: string;
  readonly #certificates: Certificates;
  readonly #members: ClusterMember[] = [];

  private constructor(dir: string, program: string, certificates: Certificates, tls: ClientTls) {
    this.#dir = dir;
    this.#program = program;
    this.#certificates = certificates;
    this.tls = tls;
  }

  static async create(dir: string): Promise<EtcdClusterBed> {
    mkdirSync(dir, { recursive: true });
    const folder = join(dir, "tls");
    const [program, clientAuthority, peerAuthority] = await Promise.all([
      findProgram("etcd"),
      CertificateAuthority.create(folder, "ca-etcd"),
      CertificateAuthority.create(folder, "ca-etcd-peer"),
    ]);
    // Peers are known by the address they come from, which is 127.0.0.1 for every member here.
    const names = ["127.0.0.1", ...hosts];
    const certificates = {
      clientAuthority,
      peerAuthority,
      server: await clientAuthority.issue("etcd-server", [], names),
      peer: await peerAuthority.issue("etcd-peer", [], names),
    };
    const client = await clientAuthority.issue("etcd-client");
    return new EtcdClusterBed(dir, program, certificates, { ca: clientAuthority.file, ...client });
  }

  /** Gives members their addresses; nothing runs yet. */
  async prepare(names: readonly string[]): Promise<ClusterMember[]> {
    const ports = await freePorts(names.length * 2);
    const members = names.map((name, index) => {
      const host = hosts[this.#members.length + index];
      if (host === undefined) throw new Error(`more than ${hosts.length} members`);
      const [client, peer] = ports.slice(index * 2);
      return {
        name,
        endpoint: `https://${host}:${client}`,
        peerUrl: `https://${host}:${peer}`,
        dataDir: join(this.#dir, name),
        server: undefined,
      };
    });
    this.#members.push(...members);
    return members;
  }

  /** Starts the first members, as a new cluster. */
  async start(members: readonly ClusterMember[]): Promise<void> {
    await Promise.all(this.found(members).map(async (server) => await server.start()));
  }

  /** The servers of the first members, as a new cluster; the caller starts all of them at once. */
  found(members: readonly ClusterMember[]): Server[] {
    const initialCluster = members.map(({ name, peerUrl }) => `${name}=${peerUrl}`);
    return members.map((member) => (member.server = this.#server(member, initialCluster, "new")));
  }

  /**
   * Starts a member that the cluster has been told of. Returns when it answers, which is before it has caught up.
   * @param initialCluster `name=peerUrl` of every member as the member list has them, the new one included.
   */
  async join(member: ClusterMember, initialCluster: readonly string[]): Promise<void> {
    member.server = this.#server(member, initialCluster, "existing");
    await member.server.start();
  }

  async stop(): Promise<void> {
    await stopAll(this.#members.flatMap(({ server }) => server ?? []));
  }

  #server(member: ClusterMember, initialCluster: readonly string[], state: "new" | "existing"): Server {
    const { name, endpoint, dataDir } = member;
    // Served by learners as well, unlike `/health` and `/readyz`.
    const path = state === "new" ? "/health" : "/version";
    return new Server({
      name: `etcd ${name}`,
      command: this.#program,
      arguments: [
        ...this.#flags(member),
        `--data-dir=${dataDir}`,
        `--initial-cluster=${initialCluster.join(",")}`,
        `--initial-cluster-state=${state}`,
      ],
      logFile: join(this.#dir, `${name}.log`),
      probe: async (signal) => void (await getWithCertificate(`${endpoint}${path}`, this.tls, signal)),
      readyWithinMs: 240_000,
    });
  }

  #flags({ name, endpoint, peerUrl }: ClusterMember): string[] {
    const { clientAuthority, peerAuthority, server, peer } = this.#certificates;
    return [
      `--name=${name}`,
      `--listen-client-urls=${endpoint}`,
      `--advertise-client-urls=${endpoint}`,
      `--listen-peer-urls=${peerUrl}`,
      `--initial-advertise-peer-urls=${peerUrl}`,
      `--cert-file=${server.cert}`,
      `--key-file=${server.key}`,
      `--trusted-ca-file=${clientAuthority.file}`,
      "--client-cert-auth",
      `--peer-cert-file=${peer.cert}`,
      `--peer-key-file=${peer.key}`,
      `--peer-trusted-ca-file=${peerAuthority.file}`,
      "--peer-client-cert-auth",
      "--auto-compaction-retention=0",
      "--unsafe-no-fsync",
      "--log-level=warn",
    ];
  }
}
