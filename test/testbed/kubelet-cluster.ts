import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { ClientTls } from "../../testbed/certificates.ts";
import { CertificateAuthority } from "../../testbed/certificates.ts";
import { getWithCertificate } from "../../testbed/https-probe.ts";
import { writeKubeconfig } from "../../testbed/kubeconfig.ts";
import { kubeletServer } from "../../testbed/kubelet/server.ts";
import { keeper } from "../../testbed/network/keeper.ts";
import { Server, stopAll } from "../../testbed/process.ts";
import { findDebianProgram } from "../../testbed/programs/debian.ts";
import { findProgram } from "../../testbed/programs/find.ts";

const run = promisify(execFile);

export interface SmallCluster {
  readonly kubeconfig: string;
  /** Credentials of an administrator. */
  readonly admin: ClientTls;
  /** Address of the API server. */
  readonly address: string;
  readonly apiServer: Server;
  readonly kubelet: Server;
  /** Folder of the node. */
  readonly nodeDir: string;
  readonly namespace: string;
  stop(): Promise<void>;
}

/** Name of the API server, for those who have a DNS server that knows it. */
export const apiServerName = "api.cluster.example";

const controllers = [
  "deployment-controller",
  "replicaset-controller",
  "statefulset-controller",
  "endpointslice-controller",
  "serviceaccount-controller",
  "root-ca-certificate-publisher-controller",
  "namespace-controller",
  "garbage-collector-controller",
  "persistentvolumeclaim-protection-controller",
];

/**
 * A cluster of one node in a network namespace of its own: etcd, kube-apiserver,
 * kube-controller-manager and the node's process runner, at 10.75.<subnet>.2,
 * reachable from here over a veth.
 */
export async function startSmallCluster(dir: string, subnet: number): Promise<SmallCluster> {
  const namespace = `kubt-${process.pid}`;
  const prefix = `10.75.${subnet}`;
  const address = `${prefix}.2`;
  await mkdir(dir, { recursive: true });
  const servers: Server[] = [];
  const start = async (server: Server): Promise<Server> => {
    servers.push(server);
    return await server.start();
  };
  const stop = async (): Promise<void> => await stopAll(servers.toReversed());
  try {
    // First, so that the namespace is removed however this process ends.
    await start(keeper([namespace], join(dir, "namespace.log")));
    await makeNamespace(namespace, prefix);
    const etcd = await etcdServer(dir, namespace);
    await start(etcd);
    const { server, kubeconfig, admin, serviceAccountKey } = await apiServer(dir, namespace, prefix);
    await start(server);
    await start(await controllerManager(dir, namespace, { kubeconfig, serviceAccountKey, ca: admin.ca }));
    const nodeDir = join(dir, "node");
    const kubelet = new Server(
      await kubeletServer({
        namespace,
        kubeconfig,
        node: "node-1",
        address,
        dir: nodeDir,
        programs: { node: process.execPath, etcd: await findProgram("etcd") },
        pods: `${prefix}.128-254`,
        loadBalancers: `${prefix}.16-63`,
        nft: await findDebianProgram("nft"),
      }),
    );
    await start(kubelet);
    return { kubeconfig, admin, address, apiServer: server, kubelet, nodeDir, namespace, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function makeNamespace(namespace: string, prefix: string): Promise<void> {
  // The link's outer end has the namespace's name too: by that it is removed with it.
  const inside = "veth0";
  const commands = [
    `ip netns add ${namespace}`,
    `ip link add ${namespace} type veth peer name ${inside} netns ${namespace}`,
    `ip address add ${prefix}.1/24 dev ${namespace}`,
    `ip link set ${namespace} up`,
    `ip -n ${namespace} address add ${prefix}.2/24 dev ${inside}`,
    `ip -n ${namespace} link set ${inside} up`,
    `ip -n ${namespace} link set lo up`,
  ];
  for (const command of commands) {
    const [file = "", ...args] = command.split(" ");
    await run(file, args);
  }
}

function inNamespace(namespace: string, file: string, args: readonly string[]) {
  return { command: "ip", arguments: ["netns", "exec", namespace, file, ...args] };
}

async function etcdServer(dir: string, namespace: string): Promise<Server> {
  const args = [
    `--data-dir=${join(dir, "etcd")}`,
    "--listen-client-urls=http://127.0.0.1:2379",
    "--advertise-client-urls=http://127.0.0.1:2379",
    "--unsafe-no-fsync",
  ];
  const probe = ["netns", "exec", namespace, await findProgram("etcdctl"), "endpoint", "health"];
  return new Server({
    name: "etcd of the cluster",
    ...inNamespace(namespace, await findProgram("etcd"), args),
    logFile: join(dir, "etcd.log"),
    probe: async (signal) => void (await run("ip", probe, { signal })),
  });
}

interface ApiServerSet {
  readonly server: Server;
  readonly kubeconfig: string;
  readonly serviceAccountKey: string;
  readonly admin: ClientTls;
}

async function apiServer(dir: string, namespace: string, prefix: string): Promise<ApiServerSet> {
  const authority = await CertificateAuthority.create(join(dir, "pki"), "ca");
  const address = `${prefix}.2`;
  const serving = await authority.issue("kube-apiserver", [], [address, apiServerName]);
  const admin: ClientTls = { ca: authority.file, ...(await authority.issue("admin", ["system:masters"])) };
  const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const serviceAccountKey = join(dir, "pki", "service-account.key");
  const publicKey = join(dir, "pki", "service-account.pub");
  await writeFile(serviceAccountKey, keys.privateKey.export({ type: "pkcs8", format: "pem" }));
  await writeFile(publicKey, keys.publicKey.export({ type: "spki", format: "pem" }));
  const url = `https://${address}:6443`;
  const kubeconfig = await writeKubeconfig(join(dir, "admin.kubeconfig"), { cluster: url }, admin);
  const args = [
    "--etcd-servers=http://127.0.0.1:2379",
    `--advertise-address=${address}`,
    `--service-cluster-ip-range=${prefix}.64/26`,
    "--authorization-mode=RBAC",
    `--client-ca-file=${authority.file}`,
    `--tls-cert-file=${serving.cert}`,
    `--tls-private-key-file=${serving.key}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${publicKey}`,
    `--service-account-signing-key-file=${serviceAccountKey}`,
  ];
  const server = new Server({
    name: "kube-apiserver",
    ...inNamespace(namespace, await findProgram("kube-apiserver"), args),
    logFile: join(dir, "kube-apiserver.log"),
    probe: async (signal) => void (await getWithCertificate(`${url}/readyz`, admin, signal)),
  });
  return { server, kubeconfig, serviceAccountKey, admin };
}

async function controllerManager(
  dir: string,
  namespace: string,
  files: { readonly kubeconfig: string; readonly serviceAccountKey: string; readonly ca: string },
): Promise<Server> {
  const args = [
    `--kubeconfig=${files.kubeconfig}`,
    `--service-account-private-key-file=${files.serviceAccountKey}`,
    `--root-ca-file=${files.ca}`,
    "--leader-elect=false",
    `--controllers=${controllers.join(",")}`,
    `--cert-dir=${join(dir, "controller-manager")}`,
  ];
  return new Server({
    name: "kube-controller-manager",
    ...inNamespace(namespace, await findProgram("kube-controller-manager"), args),
    logFile: join(dir, "kube-controller-manager.log"),
    probe: async (signal) =>
      void (await run("ip", ["netns", "exec", namespace, "curl", "-skf", "https://127.0.0.1:10257/healthz"], {
        signal,
      })),
  });
}
