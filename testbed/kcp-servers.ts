import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import type { CertificateFiles, ClientTls } from "./certificates.ts";
import { getWithCertificate } from "./https-probe.ts";
import type { KcpKubeconfigs, KcpPki } from "./kcp-pki.ts";
import { Server } from "./process.ts";
import type { ShardEtcd } from "./shard-etcd.ts";

/** Paths of the executables. */
export interface KcpCommands {
  readonly kcp: string;
  readonly frontProxy: string;
  readonly cacheServer: string;
}

/** Ports on 127.0.0.1, chosen before anything starts because the servers name each other. */
export interface KcpPorts {
  readonly frontProxy: number;
  readonly cache: number;
  readonly cacheEtcdClient: number;
  readonly cacheEtcdPeer: number;
  readonly shards: ReadonlyMap<string, number>;
}

/** What the command lines of all servers are made of. They follow kcp's own sharded-test-server. */
export interface KcpContext {
  readonly workDir: string;
  readonly commands: KcpCommands;
  readonly ports: KcpPorts;
  readonly pki: KcpPki;
  readonly kubeconfigs: KcpKubeconfigs;
  readonly migrationGate: boolean;
}

const headerNames = [
  "--requestheader-username-headers=X-Remote-User",
  "--requestheader-group-headers=X-Remote-Group",
  "--requestheader-extra-headers-prefix=X-Remote-Extra-",
];

/** The server that shards share replicated objects through. Its etcd is its own, within its process. */
export function cacheServer(context: KcpContext): Server {
  const { pki, ports } = context;
  const root = rootDirectory(context, "cache-server");
  return server(context, "cache-server", context.commands.cacheServer, ports.cache, pki.cacheClient, [
    ...serving(ports.cache, pki.cacheServing),
    `--root-directory=${root}`,
    `--client-ca-file=${pki.clientCa}`,
    `--embedded-etcd-directory=${join(root, "etcd")}`,
    `--embedded-etcd-client-port=${ports.cacheEtcdClient}`,
    `--embedded-etcd-peer-port=${ports.cacheEtcdPeer}`,
  ]);
}

/** One shard with its own etcd. */
export function shardServer(context: KcpContext, name: string, etcd: ShardEtcd): Server {
  const { pki, ports, kubeconfigs } = context;
  const port = ports.shards.get(name) as number;
  const client = pki.shardClient.get(name) as CertificateFiles;
  const rootKubeconfig = kubeconfigs.shards.get("root") as string;
  return server(context, name, context.commands.kcp, port, pki.shardAdmin, [
    "start",
    ...serving(port, pki.shardServing.get(name) as CertificateFiles),
    `--shard-name=${name}`,
    `--root-directory=${rootDirectory(context, name)}`,
    ...(name === "root" ? [] : [`--root-shard-kubeconfig-file=${rootKubeconfig}`]),
    `--cache-kubeconfig=${kubeconfigs.cache}`,
    `--logical-cluster-admin-kubeconfig=${kubeconfigs.logicalClusterAdmin}`,
    `--external-logical-cluster-admin-kubeconfig=${kubeconfigs.externalLogicalClusterAdmin}`,
    `--shard-base-url=https://127.0.0.1:${port}`,
    `--shard-external-url=https://127.0.0.1:${ports.frontProxy}`,
    `--shard-virtual-workspace-ca-file=${pki.servingCa}`,
    `--shard-client-cert-file=${client.cert}`,
    `--shard-client-key-file=${client.key}`,
    `--mount-proxy-client-cert-file=${pki.mountsProxy.cert}`,
    `--mount-proxy-client-key-file=${pki.mountsProxy.key}`,
    `--client-ca-file=${pki.clientCa}`,
    `--requestheader-client-ca-file=${pki.requestHeaderCa}`,
    ...headerNames,
    `--service-account-key-file=${pki.serviceAccount.publicKey}`,
    `--service-account-private-key-file=${pki.serviceAccount.privateKey}`,
    `--service-account-signing-key-file=${pki.serviceAccount.privateKey}`,
    `--etcd-servers=${etcd.endpoints.join(",")}`,
    `--etcd-cafile=${etcd.tls.ca}`,
    `--etcd-certfile=${etcd.tls.cert}`,
    `--etcd-keyfile=${etcd.tls.key}`,
    `--encryption-provider-config=${pki.encryption.get(name)}`,
    `--feature-gates=LogicalClusterMigration=${context.migrationGate}`,
  ]);
}

/** The address of all clients, which sends each request to the shard that has the logical cluster. */
export function frontProxyServer(context: KcpContext): Server {
  const { pki, ports, kubeconfigs } = context;
  const root = rootDirectory(context, "front-proxy");
  const mapping = join(root, "mapping.yaml");
  const backend = {
    path: "/clusters/",
    backend: `https://127.0.0.1:${ports.shards.get("root")}`,
    backend_server_ca: pki.servingCa,
    proxy_client_cert: pki.requestHeader.cert,
    proxy_client_key: pki.requestHeader.key,
  };
  writeFileSync(mapping, stringify([backend]));
  return server(context, "front-proxy", context.commands.frontProxy, ports.frontProxy, pki.kcpAdmin, [
    ...serving(ports.frontProxy, pki.frontProxyServing),
    `--root-directory=${root}`,
    `--mapping-file=${mapping}`,
    `--root-kubeconfig=${kubeconfigs.shards.get("root")}`,
    `--shards-kubeconfig=${kubeconfigs.anyShard}`,
    `--client-ca-file=${pki.clientCa}`,
    `--requestheader-client-ca-file=${pki.requestHeaderCa}`,
    ...headerNames,
    // Only these two may speak for others, not everyone whom the authority ever signs for.
    "--requestheader-allowed-names=kcp-front-proxy,kcp-mounts-proxy",
  ]);
}

function serving(port: number, files: CertificateFiles): string[] {
  return [
    "--bind-address=127.0.0.1",
    `--secure-port=${port}`,
    `--tls-cert-file=${files.cert}`,
    `--tls-private-key-file=${files.key}`,
  ];
}

function server(
  context: KcpContext,
  name: string,
  command: string,
  port: number,
  client: CertificateFiles,
  commandLine: string[],
): Server {
  const tls: ClientTls = { ca: context.pki.servingCa, ...client };
  return new Server({
    name: `kcp ${name}`,
    command,
    arguments: commandLine,
    logFile: join(context.workDir, "logs", `${name}.log`),
    probe: async (signal) => {
      await getWithCertificate(`https://127.0.0.1:${port}/readyz`, tls, signal);
    },
    readyWithinMs: 180_000,
  });
}

function rootDirectory(context: KcpContext, name: string): string {
  const folder = join(context.workDir, name);
  mkdirSync(folder, { recursive: true });
  return folder;
}
