import type { ApiServer } from "../../kubernetes/api-server.ts";
import type { Place } from "../network/places.ts";
import { applyAll, awaitReady, awaitServices } from "./install.ts";
import type { Manifest, ServiceAddresses } from "./install.ts";
import {
  controllerManagerDeployment,
  singletonAccount,
  singletonDeployment,
} from "./manifests/controllers.ts";
import { etcdBootstrap, etcdPods, etcdServices, etcdStatefulSet } from "./manifests/etcd.ts";
import { apiServerDeployment, apiServerService } from "./manifests/kube-apiserver.ts";
import { seedMetadata, secret } from "./manifests/objects.ts";
import { vpnServerConfig, vpnServerDeployment, vpnServerService } from "./manifests/vpn.ts";
import { etcdNames, seedNamespace, singletons } from "./names.ts";
import type { EtcdName } from "./names.ts";
import type { ControlPlanePki } from "./pki.ts";

export interface SeedSideOptions {
  /** The seed's API server. */
  readonly api: ApiServer;
  /** Of the seed; part of its etcd members' names. */
  readonly seedName: string;
  /** Where the cluster is that the control plane serves. */
  readonly shoot: Place;
  readonly pki: ControlPlanePki;
  /** Shared by all seeds, see {@link Fence}. */
  readonly fenceFolder: string;
  readonly onProgress: (line: string) => void;
}

/** Addresses at which the control plane is reached from outside of its seed. */
export interface PublicAddresses {
  /** API server (443) and VPN server (8132). */
  readonly apiServer: string;
  /** VPN server only, whatever the DNS name says. */
  readonly vpn: string;
}

/**
 * Puts a new control plane into a seed: etcd, API servers, controllers and the
 * VPN server. Resolves when everything is ready but the controllers of the
 * moved cluster's own, which may still be electing a leader.
 */
export async function installSeedSide(options: SeedSideOptions): Promise<PublicAddresses> {
  const { api, shoot, onProgress } = options;
  onProgress(`making namespace ${seedNamespace} in ${options.seedName}`);
  const services = await installBasics(options);
  const serving = [
    vpnServerDeployment(shoot.podSubnet),
    ...singletons.map((name) => singletonDeployment(name, options.fenceFolder)),
  ];
  await applyAll(api, serving);
  onProgress("starting etcd of the control plane");
  await startEtcds(options, services);
  onProgress("starting kube-apiserver of the control plane");
  const apiServer = apiServerDeployment(shoot.clusterIps);
  await applyAll(api, [apiServer]);
  await awaitReady(api, [apiServer, ...serving]);
  await applyAll(api, [controllerManagerDeployment()]);
  return {
    apiServer: ingressOf(services, "kube-apiserver"),
    vpn: ingressOf(services, "vpn-seed-server"),
  };
}

/** Namespace, Secrets, permissions and Services: all that the workloads refer to. */
async function installBasics(options: SeedSideOptions): Promise<ReadonlyMap<string, ServiceAddresses>> {
  const { api, pki } = options;
  const services = [...etcdNames.flatMap(etcdServices), apiServerService(), vpnServerService()];
  const namespace: Manifest = { apiVersion: "v1", kind: "Namespace", metadata: { name: seedNamespace } };
  await applyAll(api, [namespace]);
  await applyAll(api, [
    ...[...pki.secrets].map(([name, texts]) => secret(seedMetadata(name), texts)),
    ...singletonAccount(),
    vpnServerConfig(),
    ...services,
  ]);
  return await awaitServices(api, services);
}

async function startEtcds(
  { api, seedName }: SeedSideOptions,
  services: ReadonlyMap<string, ServiceAddresses>,
): Promise<void> {
  const bootstrap = (name: EtcdName) =>
    etcdBootstrap(
      name,
      etcdPods(name).map((pod) => ({
        pod,
        name: `${seedName}-${pod}`,
        peerUrl: `https://${services.get(pod)?.clusterIp}:2380`,
      })),
    );
  const statefulSets = etcdNames.map(etcdStatefulSet);
  await applyAll(api, [...etcdNames.map(bootstrap), ...statefulSets]);
  await awaitReady(api, statefulSets);
}

function ingressOf(services: ReadonlyMap<string, ServiceAddresses>, name: string): string {
  const address = services.get(name)?.ingressIp;
  if (address === undefined) throw new Error(`Service ${name} has no address for the outside`);
  return address;
}
