import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { CertificateAuthority } from "./certificates.ts";
import type { CertificateFiles, ClientTls } from "./certificates.ts";
import { getWithCertificate } from "./https-probe.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import type { Network } from "./network/network.ts";
import { inside } from "./network/places.ts";
import type { Place } from "./network/places.ts";
import { Server, stopAll } from "./process.ts";
import { findProgram } from "./programs/find.ts";

export interface SeedOptions {
  readonly network: Network;
  readonly name: "seed-a" | "seed-b";
  /** Data, logs, certificates and the kubeconfig go here. */
  readonly dir: string;
  /** Told the name of each server that is being started. */
  readonly onProgress?: (server: string) => void;
}

/** A cluster that hosts control planes: an API server with controllers, in a place of its own. It has no nodes yet. */
export interface Seed {
  readonly name: string;
  readonly place: Place;
  /** `https://ADDRESS:6443`, reachable from every place and for the operator. */
  readonly url: string;
  /** File with the one context `<name>`, as a member of `system:masters`. */
  readonly kubeconfig: string;
  /** The same administrator's files. */
  readonly tls: ClientTls;
  readonly etcd: Server;
  readonly apiServer: Server;
  readonly controllerManager: Server;
  /** All of them, in the order in which they must be stopped. */
  readonly servers: readonly Server[];
  stop(): Promise<void>;
}

/** Ports are the usual ones where others look for them; pods have addresses of their own, so nothing is in the way. */
const apiPort = 6443;
const controllerManagerPort = 10_257;
/** The seed's etcd listens within its place only, beside whatever a pod may open there. */
const etcdEndpoint = "http://127.0.0.1:12379";
const etcdPeer = "http://127.0.0.1:12380";
const etcdMetricsPort = 12_381;

/**
 * What hosting needs. Not among them are those that act on nodes: one that is
 * frozen by a test would be emptied.
 */
const controllers = [
  "clusterrole-aggregation-controller",
  "daemonset-controller",
  "deployment-controller",
  "disruption-controller",
  "endpoints-controller",
  "endpointslice-controller",
  "garbage-collector-controller",
  "job-controller",
  "namespace-controller",
  // Admission puts a finalizer on every claim, which only this one takes away.
  "persistentvolumeclaim-protection-controller",
  "replicaset-controller",
  "root-ca-certificate-publisher-controller",
  "serviceaccount-controller",
  "statefulset-controller",
];

/** What the command lines of a seed's servers are made of. */
interface Context {
  readonly name: string;
  readonly place: Place;
  readonly dir: string;
  readonly url: string;
  readonly commands: Readonly<Record<"etcd" | "kube-apiserver" | "kube-controller-manager", string>>;
  readonly ca: string;
  readonly serving: CertificateFiles;
  readonly serviceAccounts: CertificateFiles;
  readonly admin: ClientTls;
  readonly controllerManagerKubeconfig: string;
  readonly authenticationConfig: string;
}

/**
 * Starts a seed and waits until each of its servers is ready. When one fails,
 * the others are stopped and the error names its log.
 */
export async function startSeed(options: SeedOptions): Promise<Seed> {
  const seed = await prepareSeed(options);
  try {
    for (const server of seed.servers.toReversed()) {
      options.onProgress?.(server.spec.name);
      await server.start();
    }
  } catch (error) {
    await seed.stop();
    throw error;
  }
  return seed;
}

async function prepareSeed(options: SeedOptions): Promise<Seed> {
  const context = await makeContext(options);
  const { name, place, url, admin } = context;
  const etcd = etcdServer(context);
  const apiServer = apiServerServer(context);
  const controllerManager = controllerManagerServer(context);
  const servers = [controllerManager, apiServer, etcd];
  const kubeconfig = await writeKubeconfig(
    join(options.dir, `${name}.kubeconfig`),
    { [name]: url },
    context.admin,
  );
  const stop = () => stopAll(servers);
  return { name, place, url, kubeconfig, tls: admin, etcd, apiServer, controllerManager, servers, stop };
}

async function makeContext({ network, name, dir }: SeedOptions): Promise<Context> {
  const place = network.places[name];
  const url = `https://${place.address}:${apiPort}`;
  const commands = {
    etcd: await findProgram("etcd"),
    "kube-apiserver": await findProgram("kube-apiserver"),
    "kube-controller-manager": await findProgram("kube-controller-manager"),
  };
  const pki = join(dir, "pki");
  const authority = await CertificateAuthority.create(pki, `${name}-ca`);
  const hosts = [place.address, firstAddress(place.clusterIps), "kubernetes.default.svc", "localhost"];
  const ca = authority.file;
  const admin = { ca, ...(await authority.issue("admin", ["system:masters"])) };
  const manager = { ca, ...(await authority.issue("system:kube-controller-manager")) };
  return {
    name,
    place,
    dir,
    url,
    commands,
    ca,
    serving: await authority.issue("kube-apiserver", [], hosts),
    // For its key pair: the public key is read from the certificate.
    serviceAccounts: await authority.issue("service-accounts"),
    admin,
    controllerManagerKubeconfig: await writeKubeconfig(
      join(dir, "kube-controller-manager.kubeconfig"),
      { [name]: url },
      manager,
    ),
    authenticationConfig: await writeAuthenticationConfig(dir),
  };
}

/** Lets nobody in without a certificate, but for the question whether the server is well. */
async function writeAuthenticationConfig(dir: string): Promise<string> {
  await mkdir(dir, { recursive: true });
  const file = join(dir, "authentication.yaml");
  const conditions = ["/livez", "/readyz", "/healthz"].map((path) => ({ path }));
  const content = {
    apiVersion: "apiserver.config.k8s.io/v1",
    kind: "AuthenticationConfiguration",
    anonymous: { enabled: true, conditions },
  };
  await writeFile(file, stringify(content));
  return file;
}

function etcdServer(context: Context): Server {
  const { name, place, dir, commands } = context;
  const metrics = `http://${place.address}:${etcdMetricsPort}`;
  return makeServer(context, "etcd", commands.etcd, {
    arguments: [
      `--name=${name}`,
      `--data-dir=${join(dir, "etcd")}`,
      `--listen-client-urls=${etcdEndpoint}`,
      `--advertise-client-urls=${etcdEndpoint}`,
      `--listen-peer-urls=${etcdPeer}`,
      `--initial-advertise-peer-urls=${etcdPeer}`,
      `--initial-cluster=${name}=${etcdPeer}`,
      `--listen-metrics-urls=${metrics}`,
      "--log-level=warn",
      // A killed process loses nothing by it, and the disk is not what is measured.
      "--unsafe-no-fsync",
    ],
    probe: async (signal) => {
      const response = await fetch(`${metrics}/health`, { signal });
      if (!response.ok) throw new Error(`GET ${metrics}/health answered ${response.status}`);
    },
  });
}

function apiServerServer(context: Context): Server {
  const { place, serving, ca, serviceAccounts, url, admin, commands } = context;
  return makeServer(context, "kube-apiserver", commands["kube-apiserver"], {
    arguments: [
      `--bind-address=${place.address}`,
      `--advertise-address=${place.address}`,
      `--secure-port=${apiPort}`,
      `--tls-cert-file=${serving.cert}`,
      `--tls-private-key-file=${serving.key}`,
      `--client-ca-file=${ca}`,
      `--authentication-config=${context.authenticationConfig}`,
      "--authorization-mode=RBAC",
      `--etcd-servers=${etcdEndpoint}`,
      `--service-cluster-ip-range=${place.clusterIps}`,
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-signing-key-file=${serviceAccounts.key}`,
      `--service-account-key-file=${serviceAccounts.cert}`,
      // Pods here get their rights by kubeconfigs in Secrets, so none waits for its service account.
      "--disable-admission-plugins=ServiceAccount",
      "--allow-privileged=true",
    ],
    probe: async (signal) => void (await getWithCertificate(`${url}/readyz`, admin, signal)),
  });
}

function controllerManagerServer(context: Context): Server {
  const { place, serving, ca, commands, admin, serviceAccounts } = context;
  const kubeconfig = context.controllerManagerKubeconfig;
  const url = `https://${place.address}:${controllerManagerPort}`;
  return makeServer(context, "kube-controller-manager", commands["kube-controller-manager"], {
    arguments: [
      `--kubeconfig=${kubeconfig}`,
      `--controllers=${controllers.join(",")}`,
      "--leader-elect=false",
      "--use-service-account-credentials=true",
      `--service-account-private-key-file=${serviceAccounts.key}`,
      `--root-ca-file=${ca}`,
      `--bind-address=${place.address}`,
      `--secure-port=${controllerManagerPort}`,
      `--tls-cert-file=${serving.cert}`,
      `--tls-private-key-file=${serving.key}`,
    ],
    probe: async (signal) => void (await getWithCertificate(`${url}/healthz`, admin, signal)),
  });
}

function makeServer(
  { name, dir, place }: Context,
  what: string,
  command: string,
  { arguments: args, probe }: Pick<Server["spec"], "arguments" | "probe">,
): Server {
  return new Server({
    name: `${what} of ${name}`,
    ...inside(place, command, args),
    logFile: join(dir, `${what}.log`),
    probe,
    readyWithinMs: 240_000,
  });
}

/** First usable address of a range: the API server gives it to the Service `kubernetes`. */
function firstAddress(cidr: string): string {
  const [network = ""] = cidr.split("/");
  const last = network.lastIndexOf(".") + 1;
  return `${network.slice(0, last)}${Number(network.slice(last)) + 1}`;
}
