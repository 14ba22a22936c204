import { join } from "node:path";
import { getWithCertificate } from "../../https-probe.ts";
import { Server } from "../../process.ts";
import { findProgram } from "../../programs/find.ts";
import type { ControlPlanePki } from "./pki.ts";
import { CLIENT_PORT, podAddress } from "./places.ts";
import type { EtcdName, SeedSide } from "./places.ts";

/** The moved control plane's API server in one seed: one process for all replicas, at the ingress gateway's address. */
export class ApiServerPods {
  readonly #pods = new Set<string>();
  readonly #start: () => Promise<Server>;
  #server: Promise<Server> | undefined;

  constructor(dir: string, side: SeedSide, pki: ControlPlanePki, ingress: () => Promise<string>) {
    this.#start = async () => {
      const server = await makeServer(dir, side, pki, await ingress());
      await server.spawn();
      return server;
    };
  }

  async start(pod: string): Promise<void> {
    this.#pods.add(pod);
    this.#server ??= this.#start();
    await this.#server;
  }

  async isReady(): Promise<boolean> {
    const server = await this.#server;
    return (
      server?.isRunning === true &&
      (await server.spec.probe(AbortSignal.timeout(3_000)).then(
        () => true,
        () => false,
      ))
    );
  }

  /** Ends it gracefully with the last of its pods. */
  async stop(pod?: string): Promise<void> {
    if (pod !== undefined) this.#pods.delete(pod);
    if (pod !== undefined && this.#pods.size > 0) return;
    const server = this.#server;
    this.#server = undefined;
    await (await server)?.stop(30_000);
  }
}

async function makeServer(
  dir: string,
  side: SeedSide,
  { apiServer, admin, serviceAccounts, etcdClient }: ControlPlanePki,
  address: string,
): Promise<Server> {
  // As the Service for clients leads to members that are ready: the destination's third is not until the end.
  const ordinals = side === "source" ? [0, 1, 2] : [0, 1];
  const urls = (name: EtcdName) =>
    ordinals.map((ordinal) => `https://${podAddress(side, name, ordinal)}:${CLIENT_PORT}`);
  return new Server({
    name: `moved kube-apiserver at the ${side}`,
    command: await findProgram("kube-apiserver"),
    arguments: [
      `--bind-address=${address}`,
      "--secure-port=443",
      "--endpoint-reconciler-type=none",
      `--tls-cert-file=${apiServer.cert}`,
      `--tls-private-key-file=${apiServer.key}`,
      `--client-ca-file=${admin.ca}`,
      "--authorization-mode=RBAC",
      `--etcd-servers=${urls("etcd-main").join(",")}`,
      `--etcd-servers-overrides=/events#${urls("etcd-events").join(";")}`,
      `--etcd-cafile=${etcdClient.ca}`,
      `--etcd-certfile=${etcdClient.cert}`,
      `--etcd-keyfile=${etcdClient.key}`,
      "--service-cluster-ip-range=10.4.0.0/16",
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-signing-key-file=${serviceAccounts.key}`,
      `--service-account-key-file=${serviceAccounts.cert}`,
      "--disable-admission-plugins=ServiceAccount",
      "--shutdown-delay-duration=2s",
      "--goaway-chance=0.02",
    ],
    logFile: join(dir, `kube-apiserver-moved-${side}.log`),
    probe: async (signal) => void (await getWithCertificate(`https://${address}/readyz`, admin, signal)),
  });
}
