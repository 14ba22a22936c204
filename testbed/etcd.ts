import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { CertificateAuthority } from "./certificates.ts";
import type { ClientTls } from "./certificates.ts";
import { getWithCertificate } from "./https-probe.ts";
import { freePorts } from "./ports.ts";
import { Server } from "./process.ts";
import { findProgram } from "./programs/find.ts";

export interface EtcdServer {
  readonly name: string;
  /** Client URL, e.g. `https://127.0.0.1:20001`. */
  readonly endpoint: string;
  /** Files for clients; absent where the server was started without TLS. */
  readonly tls?: ClientTls;
  readonly dataDir: string;
  readonly server: Server;
}

export interface EtcdOptions {
  /** Data goes to `<dir>/<name>`, the log to `<dir>/<name>.log`, certificates to `<dir>/<name>-tls`. */
  readonly dir: string;
  readonly name: string;
  /** TLS with client certificates, as in production. Default false. */
  readonly tls?: boolean;
  /**
   * Whether each commit is flushed to the disk. Default false: a killed process
   * loses nothing either way (the kernel has the data), only a machine that loses
   * power does, and tests end with the machine. It makes a small shared disk fast
   * enough to not be what is measured.
   */
  readonly fsync?: boolean;
  /** Space quota in bytes. Default 8 GiB, the most that etcd recommends. */
  readonly quotaBytes?: number;
}

/** Starts one etcd member on free ports of 127.0.0.1 and waits until it answers linearizable reads. */
export async function startEtcd(options: EtcdOptions): Promise<EtcdServer> {
  const etcd = await prepareEtcd(options);
  await etcd.server.start();
  return etcd;
}

/** As {@link startEtcd}, but leaves the start to the caller: `server.start()`. */
export async function prepareEtcd(options: EtcdOptions): Promise<EtcdServer> {
  const { dir, name } = options;
  mkdirSync(dir, { recursive: true });
  const [command, [clientPort, peerPort], tls] = await Promise.all([
    findProgram("etcd"),
    freePorts(2),
    options.tls ? makeTls(join(dir, `${name}-tls`), name) : undefined,
  ]);
  const endpoint = `${tls ? "https" : "http"}://127.0.0.1:${clientPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  const dataDir = join(dir, name);
  const server = new Server({
    name: `etcd ${name}`,
    command,
    arguments: [
      `--name=${name}`,
      `--data-dir=${dataDir}`,
      `--listen-client-urls=${endpoint}`,
      `--advertise-client-urls=${endpoint}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=${name}=${peer}`,
      `--quota-backend-bytes=${options.quotaBytes ?? 8 * 2 ** 30}`,
      // History stays until a client compacts it: tests decide when, and API servers do so by themselves.
      "--auto-compaction-retention=0",
      "--log-level=warn",
      ...(options.fsync ? [] : ["--unsafe-no-fsync"]),
      ...(tls?.serverFlags ?? []),
    ],
    logFile: join(dir, `${name}.log`),
    probe: (signal) => probeHealth(endpoint, tls?.client, signal),
    readyWithinMs: 240_000,
  });
  return { name, endpoint, dataDir, server, ...(tls === undefined ? {} : { tls: tls.client }) };
}

async function makeTls(folder: string, name: string): Promise<{ client: ClientTls; serverFlags: string[] }> {
  const authority = await CertificateAuthority.create(folder, `${name}-ca`);
  const server = await authority.issue(`${name}-server`);
  const client = { ca: authority.file, ...(await authority.issue(`${name}-client`)) };
  const serverFlags = [
    `--cert-file=${server.cert}`,
    `--key-file=${server.key}`,
    `--trusted-ca-file=${authority.file}`,
    "--client-cert-auth",
  ];
  return { client, serverFlags };
}

async function probeHealth(endpoint: string, tls: ClientTls | undefined, signal: AbortSignal): Promise<void> {
  // etcd answers 200 here only after a linearizable read, and while no alarm is raised.
  const url = `${endpoint}/health`;
  if (tls !== undefined) {
    await getWithCertificate(url, tls, signal);
    return;
  }
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`GET ${url} answered ${response.status}: ${await response.text()}`);
}
