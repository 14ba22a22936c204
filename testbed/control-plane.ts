import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { stringify } from "yaml";
import { ApiServer } from "../kubernetes/api-server.ts";
import type { BindServers } from "./bind.ts";
import { startDns } from "./control-plane/dns.ts";
import { apiServerName, controlPlane, seedNamespace } from "./control-plane/names.ts";
import { makeControlPlanePki } from "./control-plane/pki.ts";
import type { ControlPlanePki } from "./control-plane/pki.ts";
import { findPrograms } from "./control-plane/programs.ts";
import { readFenceJournal } from "./control-plane/programs/fence.ts";
import type { FenceEvent } from "./control-plane/programs/fence.ts";
import { installSeedSide } from "./control-plane/seed-side.ts";
import type { PublicAddresses } from "./control-plane/seed-side.ts";
import { awaitShootSide, installShootSide } from "./control-plane/shoot-side.ts";
import type { ProgramTable } from "./kubelet/programs.ts";
import { kubeletServer } from "./kubelet/server.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import { ip } from "./network/ip.ts";
import { Network } from "./network/network.ts";
import type { Place } from "./network/places.ts";
import { Server, stopAll } from "./process.ts";
import { findProgram } from "./programs/find.ts";
import { startSeed } from "./seed.ts";
import type { Seed } from "./seed.ts";
import { startTemporal } from "./temporal.ts";
import type { TemporalServer } from "./temporal.ts";

export interface ControlPlaneTestbedOptions {
  /** Everything is kept here: data, logs, certificates, kubeconfigs, `rehome.yaml`. Must be on a disk. */
  readonly dir: string;
  /** How long a packet is under way from one seed to the other; a round trip takes twice as long. Default 0. */
  readonly delayMs?: number;
  /** Of the control plane's DNS record. Default 30. */
  readonly ttlSeconds?: number;
  readonly temporalPort?: number;
  readonly temporalUiPort?: number;
  readonly onProgress?: (line: string) => void;
}

/** A seed with its node: pods run in it, and Services have addresses. */
export interface TestbedSeed extends Seed {
  readonly node: Server;
  /** The seed's API server with administrator's rights. */
  readonly api: ApiServer;
}

/** Two seeds, a control plane in the first of them, and the cluster that it serves. */
export interface ControlPlaneTestbed {
  readonly dir: string;
  readonly network: Network;
  readonly seeds: Readonly<Record<"seed-a" | "seed-b", TestbedSeed>>;
  /** The moved cluster: its node, and its administrator's kubeconfig, which names the API server by its DNS name. */
  readonly shoot: { readonly place: Place; readonly node: Server; readonly kubeconfig: string };
  readonly dns: BindServers;
  readonly temporal: TemporalServer;
  /** Path of the generated `rehome.yaml`. */
  readonly configFile: string;
  /** Every server of the bed's own, in the order in which they must be stopped; what runs in pods ends with its node. */
  readonly servers: readonly Server[];
  /** Where the control plane was reached at first. */
  readonly addresses: PublicAddresses;
  /** The moved API server at an address of a seed, whatever the DNS record says. */
  apiAt(address: string): ApiServer;
  /** What controllers that must run once have noted so far, in both seeds. */
  fenceJournal(): readonly FenceEvent[];
  stop(): Promise<void>;
}

/**
 * Starts the whole landscape of a move of a control plane and writes
 * `<dir>/rehome.yaml`: about half a minute. Needs Linux and root
 * ({@link Network.whyNot}). When something fails, everything is stopped.
 */
export async function startControlPlaneTestbed(
  options: ControlPlaneTestbedOptions,
): Promise<ControlPlaneTestbed> {
  const dir = resolve(options.dir);
  await mkdir(dir, { recursive: true });
  const network = await Network.create({ dir: join(dir, "network") });
  const started: Server[] = [];
  try {
    return await bringUp(network, started, { ...options, dir });
  } catch (error) {
    await stopAll(started.toReversed());
    await network.destroy();
    throw error;
  }
}

/** @param started gets every server that has been started, in that order */
async function bringUp(
  network: Network,
  started: Server[],
  options: ControlPlaneTestbedOptions,
): Promise<ControlPlaneTestbed> {
  const { dir, delayMs = 0, onProgress = () => undefined } = options;
  const { shoot } = network.places;
  const programs = await findPrograms(join(dir, "bin"));
  const fenceFolder = join(dir, "fences");
  await mkdir(fenceFolder, { recursive: true });
  await network.wire("seed-a", "seed-b").setDelay(delayMs);
  const temporal = await bringUpTemporal(options);
  started.push(temporal.server);
  const seeds = {
    "seed-a": await bringUpSeed(network, "seed-a", programs, options, started),
    "seed-b": await bringUpSeed(network, "seed-b", programs, options, started),
  };
  const pki = await makeControlPlanePki(join(dir, "pki"), serviceAddresses(network));
  const { api } = seeds["seed-a"];
  const side = { api, seedName: "seed-a", shoot, pki, fenceFolder, onProgress };
  const addresses = await installSeedSide(side);
  const dns = await startDns({
    dir: join(dir, "dns"),
    address: addresses.apiServer,
    ttlSeconds: options.ttlSeconds ?? 30,
    shoot,
  });
  started.push(dns.primary, dns.secondary);
  const kubeconfig = await writeAdminKubeconfig(dir, pki);
  onProgress("starting the moved cluster's node and VPN clients");
  const apiAt = (address: string) =>
    new ApiServer(`${controlPlane} at ${address}`, {
      kubeconfig,
      server: `https://${address}`,
      serverName: apiServerName,
    });
  await installShootSide(apiAt(addresses.apiServer), pki);
  const node = await startNode(
    shoot,
    kubeconfig,
    join(dir, "shoot"),
    programs,
    `${shoot.operatorAddress}:53`,
  );
  started.push(node);
  await awaitShootSide(apiAt(addresses.apiServer));
  const servers = started.toReversed();
  return {
    dir,
    network,
    seeds,
    shoot: { place: shoot, node, kubeconfig },
    dns,
    temporal,
    configFile: await writeConfig(join(dir, "rehome.yaml"), temporal, Object.values(seeds), dns, kubeconfig),
    servers,
    addresses,
    apiAt,
    fenceJournal: () => readFenceJournal(fenceFolder),
    stop: async () => {
      await stopAll(servers);
      await network.destroy();
    },
  };
}

async function bringUpTemporal(options: ControlPlaneTestbedOptions): Promise<TemporalServer> {
  const { dir, temporalPort, temporalUiPort } = options;
  return await startTemporal({
    dir: join(dir, "temporal"),
    ...(temporalPort === undefined ? {} : { port: temporalPort }),
    ...(temporalUiPort === undefined ? {} : { uiPort: temporalUiPort }),
  });
}

async function bringUpSeed(
  network: Network,
  name: "seed-a" | "seed-b",
  programs: ProgramTable,
  options: ControlPlaneTestbedOptions,
  started: Server[],
): Promise<TestbedSeed> {
  const { dir, onProgress = () => undefined } = options;
  const seed = await startSeed({
    network,
    name,
    dir: join(dir, name),
    onProgress: (server) => onProgress(`starting ${server}`),
  });
  started.push(...seed.servers.toReversed());
  const { place, kubeconfig } = seed;
  // Pods of the moved cluster are reached through the VPN or not at all, though the wire would carry them.
  await ip([`route add unreachable ${network.places.shoot.podSubnet} metric 1000`], place.namespace);
  const node = await startNode(place, kubeconfig, join(dir, name, "node"), programs);
  started.push(node);
  return { ...seed, node, api: new ApiServer(name, { kubeconfig }) };
}

async function startNode(
  place: Place,
  kubeconfig: string,
  dir: string,
  programs: ProgramTable,
  dns?: string,
): Promise<Server> {
  const spec = await kubeletServer({
    namespace: place.namespace,
    kubeconfig,
    node: place.name,
    address: place.address,
    dir,
    programs,
    pods: place.podIps,
    loadBalancers: place.loadBalancerIps,
    nft: await findProgram("nft"),
    ...(dns !== undefined && { dns }),
  });
  return await new Server(spec).start();
}

/** Every address that a Service may get in either seed. */
function serviceAddresses(network: Network): string[] {
  const [firstBalancer, lastClusterIp] = [16, 127];
  return (["seed-a", "seed-b"] as const).flatMap((name) => {
    const { subnet } = network.places[name];
    const net = subnet.slice(0, subnet.lastIndexOf("."));
    const count = lastClusterIp - firstBalancer + 1;
    return Array.from({ length: count }, (_, index) => `${net}.${firstBalancer + index}`);
  });
}

async function writeAdminKubeconfig(dir: string, pki: ControlPlanePki): Promise<string> {
  const server = `https://${apiServerName}`;
  return await writeKubeconfig(
    join(dir, `${controlPlane}.kubeconfig`),
    { [controlPlane]: server },
    pki.admin,
  );
}

/** Writes the `rehome.yaml` that makes workers and the CLI work with these servers. */
async function writeConfig(
  file: string,
  temporal: TemporalServer,
  seeds: readonly Seed[],
  dns: BindServers,
  kubeconfig: string,
): Promise<string> {
  const content = {
    temporal: { address: temporal.address, namespace: temporal.namespace },
    seeds: Object.fromEntries(seeds.map((seed) => [seed.name, { kubeconfig: seed.kubeconfig }])),
    dns: { servers: dns.servers, zone: dns.zone, tsig: dns.tsig },
    controlPlanes: {
      [controlPlane]: {
        namespace: seedNamespace,
        kubeconfig,
        apiServer: { dnsName: apiServerName },
        vpn: {},
      },
    },
  };
  await writeFile(file, stringify(content));
  return file;
}

/** The bed as `testbed.json` names it. */
export function describeControlPlane(testbed: ControlPlaneTestbed): object {
  const { network, seeds, shoot, dns, temporal, configFile, addresses } = testbed;
  return {
    rehomeConfig: configFile,
    temporal: { address: temporal.address, namespace: temporal.namespace, uiUrl: temporal.uiUrl },
    network: { id: network.id, places: network.places },
    seeds: Object.fromEntries(
      Object.values(seeds).map(({ name, url, kubeconfig }) => [name, { url, kubeconfig }]),
    ),
    dns: { servers: dns.servers, zone: dns.zone },
    controlPlane: { name: controlPlane, namespace: seedNamespace, dnsName: apiServerName, addresses },
    kubeconfig: shoot.kubeconfig,
  };
}
