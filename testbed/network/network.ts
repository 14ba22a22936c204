import { randomInt } from "node:crypto";
import { accessSync, constants, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Server, stopAll } from "../process.ts";
import { tryLock } from "../programs/lock.ts";
import type { FileLock } from "../programs/lock.ts";
import { ip, ipJson } from "./ip.ts";
import { keeper, removeNamespaces } from "./keeper.ts";
import { makePlace, operatorDevice, placeNames } from "./places.ts";
import type { Place, PlaceName } from "./places.ts";
import { Wire } from "./wire.ts";

export interface NetworkOptions {
  /** Logs go here. */
  readonly dir: string;
}

/** Beds on one machine differ in the second part of their addresses: `10.75`, `10.76`... */
const secondParts = Array.from({ length: 20 }, (_, index) => 75 + index);
/** Namespaces belong to the machine, and so do their locks, whatever cache a user has chosen. */
const lockFolder = "/run/rehome-testbed";
const namespaceFolder = "/run/netns";

/**
 * What is sent to nobody's address (RFC 5737) gets lost, as on the Internet, and is not refused: the operator has no such
 * hardware address.
 */
const toNobody = [
  `route replace 192.0.2.1 dev ${operatorDevice}`,
  `neighbor replace 192.0.2.1 lladdr 02:00:00:00:00:01 nud permanent dev ${operatorDevice}`,
];

/**
 * Three places ({@link placeNames}), each a network namespace of its own, with a
 * wire between any two of them and a link from each to the operator, which is
 * this machine's own network. Nothing else connects them. It is taken away with
 * this process, however that ends: at once by the guardian, or else by the next
 * bed that is made.
 */
export class Network {
  /** Names the bed on this machine, e.g. `rh75k3f`: never the same twice, so that a late removal hits no successor. */
  readonly id: string;
  readonly places: Readonly<Record<PlaceName, Place>>;
  readonly #wires: Wire[] = [];
  readonly #keeper: Server;
  readonly #lock: FileLock;
  /** Once only: later the lock may be another bed's. */
  #destroyed: Promise<void> | undefined;

  private constructor(secondPart: number, lock: FileLock, dir: string) {
    this.id = `${idPrefix(secondPart)}${randomInt(36 ** 2, 36 ** 3).toString(36)}`;
    const entries = placeNames.map((name) => [name, makePlace(name, this.id, `10.${secondPart}`)]);
    this.places = Object.fromEntries(entries) as Record<PlaceName, Place>;
    this.#lock = lock;
    this.#keeper = keeper(this.#namespaces(), join(dir, "network.log"));
  }

  /** Why no network can be made here, as one line for people; undefined where it can. */
  static whyNot(): string | undefined {
    if (process.platform !== "linux") return "network namespaces need Linux";
    if (process.getuid?.() !== 0) return "network namespaces need root";
    try {
      accessSync("/dev/net/tun", constants.R_OK | constants.W_OK);
    } catch {
      return "wires between namespaces need /dev/net/tun";
    }
    const folders = (process.env["PATH"] ?? "").split(":");
    const hasIp = folders.some((folder) => folder !== "" && isThere(join(folder, "ip")));
    return hasIp ? undefined : 'network namespaces need the program "ip" (iproute2)';
  }

  /** @throws Error as {@link whyNot} says, or when no range of addresses is free */
  static async create(options: NetworkOptions): Promise<Network> {
    const reason = Network.whyNot();
    if (reason !== undefined) throw new Error(reason);
    mkdirSync(options.dir, { recursive: true });
    await clearDeadBeds();
    const { secondPart, lock } = await reserveAddresses();
    const network = new Network(secondPart, lock, options.dir);
    try {
      await network.#build(options.dir);
    } catch (error) {
      await network.destroy();
      throw error;
    }
    return network;
  }

  /** The wire between two places, in either order. */
  wire(one: PlaceName, other: PlaceName): Wire {
    const wire = this.#wires.find(({ ends }) => {
      const names = ends.map(({ name }) => name);
      return one !== other && names.includes(one) && names.includes(other);
    });
    if (wire === undefined) throw new Error(`no wire between ${one} and ${other}`);
    return wire;
  }

  /** Cuts the operator off from a place; what the places say to each other still arrives. */
  async cutOperator(name: PlaceName): Promise<void> {
    // At the place's end: the operator keeps its route, so packets get lost here and go nowhere else.
    await ip([`link set ${operatorDevice} down`], this.places[name].namespace);
  }

  async mendOperator(name: PlaceName): Promise<void> {
    // The route to the operator belongs to the address, so it comes back with the link.
    await ip([`link set ${operatorDevice} up`, ...toNobody], this.places[name].namespace);
  }

  /** Takes everything away, and ends whatever still runs in the places. */
  async destroy(): Promise<void> {
    await (this.#destroyed ??= this.#destroy());
  }

  async #destroy(): Promise<void> {
    await Promise.all(this.#wires.map((wire) => wire.remove()));
    await stopAll([this.#keeper]);
    await this.#lock.release();
  }

  async #build(dir: string): Promise<void> {
    // First, so that nothing is made which nobody would take away.
    await this.#keeper.start();
    for (const place of Object.values(this.places)) await makeNamespace(place);
    for (const [index, one] of placeNames.entries()) {
      for (const other of placeNames.slice(index + 1)) {
        const log = join(dir, `wire-${one}-${other}.log`);
        this.#wires.push(await Wire.lay([this.places[one], this.places[other]], log));
      }
    }
  }

  #namespaces(): string[] {
    return Object.values(this.places).map(({ namespace }) => namespace);
  }
}

async function makeNamespace(place: Place): Promise<void> {
  const { namespace, address, operatorAddress, subnet } = place;
  await ip([
    `netns add ${namespace}`,
    `link add ${namespace} type veth peer name ${operatorDevice} netns ${namespace}`,
    `address add ${operatorAddress} peer ${address} dev ${namespace}`,
    `link set ${namespace} up`,
    `route add ${subnet} via ${address} dev ${namespace}`,
  ]);
  await ip(
    [
      "link set lo up",
      // On a device that never goes down, so that it outlives a cut of the operator's link.
      `address add ${address}/32 dev lo`,
      `address add ${address} peer ${operatorAddress} dev ${operatorDevice}`,
      `link set ${operatorDevice} up`,
      ...toNobody,
      // Where a Service's address is translated on its way out, the kernel wants a route to it before.
      `route add ${subnet} dev lo src ${address}`,
    ],
    namespace,
  );
}

async function reserveAddresses(): Promise<{ secondPart: number; lock: FileLock }> {
  const addresses = await ipJson<{ addr_info: { local?: string }[] }>("-4", "address", "show");
  const used = addresses.flatMap((device) => device.addr_info.map(({ local }) => local ?? ""));
  for (const secondPart of secondParts) {
    const lock = await tryLock(lockFile(secondPart));
    if (!("release" in lock)) continue;
    if (!used.some((address) => address.startsWith(`10.${secondPart}.`))) return { secondPart, lock };
    await lock.release();
  }
  const [first, last] = [secondParts[0], secondParts.at(-1)];
  throw new Error(`no addresses are left for a test bed from 10.${first}.0.0/16 to 10.${last}.0.0/16`);
}

/** Removes namespaces whose makers are dead, with whatever runs in them. */
async function clearDeadBeds(): Promise<void> {
  for (const secondPart of secondParts) {
    const left = namespacesOf(secondPart);
    if (left.length === 0) continue;
    const lock = await tryLock(lockFile(secondPart));
    if (!("release" in lock)) continue;
    await removeNamespaces(left);
    await lock.release();
  }
}

function namespacesOf(secondPart: number): string[] {
  try {
    return readdirSync(namespaceFolder).filter((name) => name.startsWith(idPrefix(secondPart)));
  } catch {
    // The folder comes with the machine's first namespace.
    return [];
  }
}

function idPrefix(secondPart: number): string {
  return `rh${secondPart}`;
}

function lockFile(secondPart: number): string {
  return join(lockFolder, `network-10.${secondPart}.lock`);
}

function isThere(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
