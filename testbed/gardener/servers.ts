import { join } from "node:path";
import { CertificateAuthority } from "../certificates.ts";
import type { CertificateFiles, ClientTls } from "../certificates.ts";
import { startEtcd } from "../etcd.ts";
import type { EtcdServer } from "../etcd.ts";
import { getWithCertificate } from "../https-probe.ts";
import { writeKubeconfig } from "../kubeconfig.ts";
import { freePort } from "../ports.ts";
import { Server, stopAll } from "../process.ts";
import { findProgram } from "../programs/find.ts";

/** A garden and two seeds of one etcd, told apart by key prefixes. */
export interface GardenerServers {
  /** Files with one context each: Gardener's API server, the API server beneath it, and the two seeds. */
  readonly kubeconfigs: Readonly<Record<"garden" | "core" | "source" | "destination", string>>;
  readonly stop: () => Promise<void>;
}

/** What a seed needs of Kubernetes' own controllers. */
const controllers = [
  "deployment",
  "garbage-collector",
  "namespace",
  "persistentvolumeclaim-protection",
  "replicaset",
  "serviceaccount",
  "statefulset",
];

/**
 * Admission that asks for other things than the moved Shoot: other controllers' registrations, quotas, secrets of
 * infrastructure. What checks the Shoot itself, and its binding, stays.
 */
const otherAdmission = [
  "ExtensionValidator",
  "ResourceReferenceManager",
  "ShootQuotaValidator",
  "ShootDNS",
  "ShootExposureClass",
  "ShootVPAEnabledByDefault",
  "SeedValidator",
  "BackupBucketValidator",
];

interface Bed {
  readonly dir: string;
  readonly etcd: EtcdServer;
  readonly authority: CertificateAuthority;
  readonly serving: CertificateFiles;
  readonly admin: ClientTls;
  readonly serviceAccounts: CertificateFiles;
}

/** Starts the servers on free ports of 127.0.0.1 and waits until they serve. Data and logs go to `dir`. */
export async function startGardenerServers(dir: string): Promise<GardenerServers> {
  const etcd = await startEtcd({ dir, name: "etcd" });
  const servers: Server[] = [etcd.server];
  const stop = async () => await stopAll(servers.toReversed());
  try {
    const authority = await CertificateAuthority.create(join(dir, "pki"), "gardener-bed-ca");
    const bed: Bed = {
      dir,
      etcd,
      authority,
      serving: await authority.issue("server", [], ["localhost", "127.0.0.1"]),
      admin: { ca: authority.file, ...(await authority.issue("admin", ["system:masters"])) },
      serviceAccounts: await authority.issue("service-accounts"),
    };
    const core = await kubeApiServer(bed, "core");
    const source = await kubeApiServer(bed, "source");
    const destination = await kubeApiServer(bed, "destination");
    for (const { server } of [core, source, destination]) {
      servers.push(server);
      await server.start();
    }
    const garden = await gardenerApiServer(bed, core.kubeconfig);
    const managers = [
      await controllerManager(bed, "source", source),
      await controllerManager(bed, "destination", destination),
    ];
    for (const server of [garden.server, ...managers]) {
      servers.push(server);
      await server.start();
    }
    const kubeconfigs = {
      garden: garden.kubeconfig,
      core: core.kubeconfig,
      source: source.kubeconfig,
      destination: destination.kubeconfig,
    };
    return { kubeconfigs, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface ApiServerProcess {
  readonly server: Server;
  readonly kubeconfig: string;
}

async function kubeApiServer(bed: Bed, name: string): Promise<ApiServerProcess> {
  const { dir, etcd, serving, admin, serviceAccounts } = bed;
  const port = await freePort();
  const url = `https://127.0.0.1:${port}`;
  const server = new Server({
    name: `kube-apiserver ${name}`,
    command: await findProgram("kube-apiserver"),
    arguments: [
      "--bind-address=127.0.0.1",
      "--advertise-address=127.0.0.1",
      "--endpoint-reconciler-type=none",
      `--secure-port=${port}`,
      `--tls-cert-file=${serving.cert}`,
      `--tls-private-key-file=${serving.key}`,
      `--client-ca-file=${admin.ca}`,
      "--authorization-mode=RBAC",
      `--etcd-servers=${etcd.endpoint}`,
      `--etcd-prefix=/${name}`,
      "--service-cluster-ip-range=10.96.0.0/24",
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-signing-key-file=${serviceAccounts.key}`,
      `--service-account-key-file=${serviceAccounts.cert}`,
      "--disable-admission-plugins=ServiceAccount",
    ],
    logFile: join(dir, `kube-apiserver-${name}.log`),
    probe: async (signal) => void (await getWithCertificate(`${url}/readyz`, admin, signal)),
    readyWithinMs: 120_000,
  });
  return {
    server,
    kubeconfig: await writeKubeconfig(join(dir, `${name}.kubeconfig`), { [name]: url }, admin),
  };
}

async function gardenerApiServer(bed: Bed, core: string): Promise<ApiServerProcess> {
  const { dir, etcd, serving, admin, serviceAccounts } = bed;
  const port = await freePort();
  const url = `https://127.0.0.1:${port}`;
  const server = new Server({
    name: "gardener-apiserver",
    command: await findProgram("gardener-apiserver"),
    arguments: [
      "--bind-address=127.0.0.1",
      `--secure-port=${port}`,
      `--tls-cert-file=${serving.cert}`,
      `--tls-private-key-file=${serving.key}`,
      `--client-ca-file=${admin.ca}`,
      `--etcd-servers=${etcd.endpoint}`,
      "--etcd-prefix=/gardener",
      `--kubeconfig=${core}`,
      `--authentication-kubeconfig=${core}`,
      `--authorization-kubeconfig=${core}`,
      "--authentication-skip-lookup=true",
      "--cluster-identity=rehome-bed",
      "--feature-gates=LiveControlPlaneMigration=true",
      `--disable-admission-plugins=${otherAdmission.join(",")}`,
      "--workload-identity-token-issuer=https://issuer.rehome.invalid",
      `--workload-identity-signing-key-file=${serviceAccounts.key}`,
    ],
    logFile: join(dir, "gardener-apiserver.log"),
    probe: async (signal) => void (await getWithCertificate(`${url}/readyz`, admin, signal)),
    readyWithinMs: 120_000,
  });
  return {
    server,
    kubeconfig: await writeKubeconfig(join(dir, "garden.kubeconfig"), { garden: url }, admin),
  };
}

async function controllerManager(
  { dir, serving, admin, serviceAccounts }: Bed,
  name: string,
  { kubeconfig }: ApiServerProcess,
): Promise<Server> {
  const port = await freePort();
  return new Server({
    name: `kube-controller-manager ${name}`,
    command: await findProgram("kube-controller-manager"),
    arguments: [
      `--kubeconfig=${kubeconfig}`,
      `--controllers=${controllers.map((controller) => `${controller}-controller`).join(",")}`,
      "--leader-elect=false",
      "--bind-address=127.0.0.1",
      `--secure-port=${port}`,
      `--tls-cert-file=${serving.cert}`,
      `--tls-private-key-file=${serving.key}`,
      `--service-account-private-key-file=${serviceAccounts.key}`,
    ],
    logFile: join(dir, `kube-controller-manager-${name}.log`),
    probe: async (signal) =>
      void (await getWithCertificate(`https://127.0.0.1:${port}/healthz`, admin, signal)),
    readyWithinMs: 60_000,
  });
}
