import { join } from "node:path";
import { ApiServer } from "../../kubernetes/api-server.ts";
import type { ProgramTable } from "../kubelet/programs.ts";
import { kubeletServer } from "../kubelet/server.ts";
import { ip } from "../network/ip.ts";
import type { Network } from "../network/network.ts";
import type { Place } from "../network/places.ts";
import { Server } from "../process.ts";
import { findProgram } from "../programs/find.ts";
import { startSeed } from "../seed.ts";
import type { Seed } from "../seed.ts";

/** A seed with its node: pods run in it, and Services have addresses. */
export interface TestbedSeed extends Seed {
  readonly node: Server;
  /** The seed's API server with administrator's rights. */
  readonly api: ApiServer;
}

export interface SeedWithNodeOptions {
  readonly network: Network;
  readonly name: "seed-a" | "seed-b";
  /** Folder of this seed. */
  readonly dir: string;
  readonly programs: ProgramTable;
  /** Gets every server that has been started, in that order. */
  readonly started: Server[];
  readonly onProgress: (line: string) => void;
}

/** Starts a seed and its node; from then on pods of the moved cluster can be reached from there through a VPN only. */
export async function startSeedWithNode(options: SeedWithNodeOptions): Promise<TestbedSeed> {
  const { network, name, dir, programs, started, onProgress } = options;
  const seed = await startSeed({
    network,
    name,
    dir,
    onProgress: (server) => onProgress(`starting ${server}`),
  });
  started.push(...seed.servers.toReversed());
  const { place, kubeconfig } = seed;
  // The wire would carry packets to them. The VPN's own route goes first, by its metric.
  await ip([`route add unreachable ${network.places.shoot.podSubnet} metric 1000`], place.namespace);
  const node = await startNode({ place, kubeconfig, dir: join(dir, "node"), programs });
  started.push(node);
  return { ...seed, node, api: new ApiServer(name, { kubeconfig }) };
}

export interface NodeOptions {
  readonly place: Place;
  /** Of the cluster whose node it is. */
  readonly kubeconfig: string;
  readonly dir: string;
  readonly programs: ProgramTable;
  /** `address:port` of the server that resolves names in this place. */
  readonly dns?: string;
}

/** Starts the one node of a cluster, named like its place. */
export async function startNode({ place, kubeconfig, dir, programs, dns }: NodeOptions): Promise<Server> {
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
