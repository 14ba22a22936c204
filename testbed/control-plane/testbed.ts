import type { ApiServer } from "../../kubernetes/api-server.ts";
import type { BindServers } from "../bind.ts";
import type { Network } from "../network/network.ts";
import type { Place } from "../network/places.ts";
import type { Server } from "../process.ts";
import type { TemporalServer } from "../temporal.ts";
import type { TestbedSeed } from "./node.ts";
import type { FenceEvent } from "./programs/fence.ts";
import type { PublicAddresses } from "./seed-side.ts";

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
