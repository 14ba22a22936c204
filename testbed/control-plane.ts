import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ApiServer } from "../kubernetes/api-server.ts";
import { writeControlPlaneConfig } from "./control-plane/describe.ts";
import { startDns } from "./control-plane/dns.ts";
import { apiServerName, controlPlane } from "./control-plane/names.ts";
import { startNode, startSeedWithNode } from "./control-plane/node.ts";
import { makeControlPlanePki } from "./control-plane/pki.ts";
import type { ControlPlanePki } from "./control-plane/pki.ts";
import { findPrograms } from "./control-plane/programs.ts";
import { readFenceJournal } from "./control-plane/programs/fence.ts";
import { installSeedSide } from "./control-plane/seed-side.ts";
import { awaitShootSide, installShootSide } from "./control-plane/shoot-side.ts";
import type { ControlPlaneTestbed } from "./control-plane/testbed.ts";
import type { ProgramTable } from "./kubelet/programs.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import { Network } from "./network/network.ts";
import { stopAll } from "./process.ts";
import type { Server } from "./process.ts";
import { startTemporal } from "./temporal.ts";
import type { TemporalServer } from "./temporal.ts";

export type { ControlPlaneTestbed } from "./control-plane/testbed.ts";

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
    const landscape = await bringUpLandscape({ ...options, dir }, network, started);
    return await bringUpControlPlane(landscape);
  } catch (error) {
    await stopAll(started.toReversed());
    await network.destroy();
    throw error;
  }
}

/** What is there before any control plane. */
interface Landscape extends Pick<ControlPlaneTestbed, "dir" | "network" | "seeds" | "temporal"> {
  readonly programs: ProgramTable;
  readonly ttlSeconds: number;
  /** Gets every server that has been started, in that order. */
  readonly started: Server[];
  readonly onProgress: (line: string) => void;
}

async function bringUpLandscape(
  options: ControlPlaneTestbedOptions,
  network: Network,
  started: Server[],
): Promise<Landscape> {
  const { dir, delayMs = 0, ttlSeconds = 30, onProgress = () => undefined } = options;
  const programs = await findPrograms(join(dir, "bin"));
  await network.wire("seed-a", "seed-b").setDelay(delayMs);
  const temporal = await bringUpTemporal(options);
  started.push(temporal.server);
  const start = async (name: "seed-a" | "seed-b") =>
    await startSeedWithNode({ network, name, dir: join(dir, name), programs, started, onProgress });
  // One after the other: together they would not be ready any sooner.
  const seeds = { "seed-a": await start("seed-a"), "seed-b": await start("seed-b") };
  return { dir, network, seeds, temporal, programs, ttlSeconds, started, onProgress };
}

async function bringUpTemporal(options: ControlPlaneTestbedOptions): Promise<TemporalServer> {
  const { dir, temporalPort, temporalUiPort } = options;
  return await startTemporal({
    dir: join(dir, "temporal"),
    ...(temporalPort === undefined ? {} : { port: temporalPort }),
    ...(temporalUiPort === undefined ? {} : { uiPort: temporalUiPort }),
  });
}

async function bringUpControlPlane(landscape: Landscape): Promise<ControlPlaneTestbed> {
  const { dir, network, seeds, temporal, started, ttlSeconds, onProgress } = landscape;
  const { shoot } = network.places;
  const fenceFolder = join(dir, "fences");
  await mkdir(fenceFolder);
  const pki = await makeControlPlanePki(join(dir, "pki"), serviceAddresses(network));
  const { api } = seeds["seed-a"];
  const addresses = await installSeedSide({ api, seedName: "seed-a", shoot, pki, fenceFolder, onProgress });
  const dns = await startDns({ dir: join(dir, "dns"), address: addresses.apiServer, ttlSeconds, shoot });
  started.push(dns.primary, dns.secondary);
  const kubeconfig = await writeAdminKubeconfig(dir, pki);
  const apiAt = (address: string) =>
    new ApiServer(`${controlPlane} at ${address}`, {
      kubeconfig,
      server: `https://${address}`,
      serverName: apiServerName,
    });
  const node = await bringUpShoot(landscape, apiAt(addresses.apiServer), pki, kubeconfig);
  const described = { dns, temporal, seeds, shoot: { place: shoot, node, kubeconfig } };
  const servers = started.toReversed();
  return {
    dir,
    network,
    ...described,
    configFile: await writeControlPlaneConfig(join(dir, "rehome.yaml"), described),
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

/** Gives the moved cluster its node, which finds the API server by the DNS name. */
async function bringUpShoot(
  { dir, network, programs, started, onProgress }: Landscape,
  api: ApiServer,
  pki: ControlPlanePki,
  kubeconfig: string,
): Promise<Server> {
  const place = network.places.shoot;
  onProgress("starting the moved cluster's node and VPN clients");
  await installShootSide(api, pki);
  const dns = `${place.operatorAddress}:53`;
  const node = await startNode({ place, kubeconfig, dir: join(dir, "shoot"), programs, dns });
  started.push(node);
  await awaitShootSide(api);
  return node;
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
  const file = join(dir, `${controlPlane}.kubeconfig`);
  return await writeKubeconfig(file, { [controlPlane]: `https://${apiServerName}` }, pki.admin);
}
