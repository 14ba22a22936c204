import { execFile } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual, promisify } from "node:util";

export interface PathControllerOptions {
  /** OpenVPN's management socket. */
  readonly management: string;
  /** The server's network device. */
  readonly device: string;
  /** Addresses of the pods behind the VPN clients, e.g. `10.75.3.128/25`. */
  readonly range: string;
}

const run = promisify(execFile);
const lookEveryMs = 250;
const answerWithinMs = 500;
/** Nothing listens there: a refusal comes back from the client's kernel, and proves the whole path. */
const probePort = 9;

/**
 * Keeps the route to the pods of the moved cluster on a VPN client that is
 * alive, as Gardener's path controller does: OpenVPN tells which clients are
 * connected, and a packet to their kernel and back tells whether they work.
 * While no client is alive the last route stays, so that packets are sent again
 * by TCP rather than refused. Runs until the process ends.
 */
export async function controlPath(options: PathControllerOptions): Promise<void> {
  const path = new Path(options);
  for (;;) {
    try {
      for await (const clients of connectedClients(options.management)) await path.follow(clients);
    } catch (error) {
      console.error((error as Error).message);
    }
    await delay(lookEveryMs);
  }
}

interface VpnClient {
  /** Differs for each connection. */
  readonly id: string;
  /** Address of the client within the tunnel. */
  readonly address: string;
}

class Path {
  readonly #options: PathControllerOptions;
  /** The client whose connection the route was set for. */
  #via: VpnClient | undefined;
  /** Address to connection. */
  #known = new Map<string, string>();

  constructor(options: PathControllerOptions) {
    this.#options = options;
  }

  async follow(clients: readonly VpnClient[]): Promise<void> {
    const { range, device } = this.#options;
    for (const { id, address } of clients) {
      // A new client may have got the address of an old one, and has another MAC address. The
      // neighbours in use are left alone: a packet to one that has to be resolved again waits.
      if (this.#known.get(address) !== id) await ip("neigh", "flush", "to", address, "dev", device);
    }
    this.#known = new Map(clients.map(({ id, address }) => [address, id]));
    const next = await choose(clients, this.#via);
    // The route goes with the device when the server is restarted, and every connection with it.
    if (next === undefined || isDeepStrictEqual(next, this.#via)) return;
    await ip("route", "replace", range, "via", next.address, "dev", device);
    console.error(`${range} by way of ${next.address}`);
    this.#via = next;
  }
}

/** The clients that are connected, again and again; ends with the connection to the server. */
async function* connectedClients(management: string): AsyncGenerator<readonly VpnClient[]> {
  const socket = connect(management);
  try {
    await once(socket, "connect");
    const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
    for (;;) {
      yield await askForClients(socket, lines);
      await delay(lookEveryMs);
    }
  } finally {
    socket.destroy();
  }
}

async function askForClients(socket: Socket, lines: AsyncIterator<string>): Promise<VpnClient[]> {
  socket.write("status 3\n");
  const clients: VpnClient[] = [];
  for (;;) {
    const { value, done } = await lines.next();
    if (done) throw new Error("OpenVPN has closed its management socket");
    if (value === "END") return clients;
    const fields = value.split("\t");
    const address = fields[3];
    // Numbers begin anew with the server, ports come again: together with the time they do not.
    const id = [fields[2], fields[8], fields[10]].join(" ");
    // A client has no address until it has been let in.
    if (fields[0] === "CLIENT_LIST" && address) clients.push({ address, id });
  }
}

/** The client in use as long as it answers, else the first that does. */
async function choose(
  clients: readonly VpnClient[],
  current: VpnClient | undefined,
): Promise<VpnClient | undefined> {
  const isCurrent = ({ address }: VpnClient) => Number(address === current?.address);
  const ordered = clients.toSorted((a, b) => isCurrent(b) - isCurrent(a));
  for (const client of ordered) if (await answers(client.address)) return client;
  return undefined;
}

async function answers(host: string): Promise<boolean> {
  const socket = connect({ host, port: probePort, signal: AbortSignal.timeout(answerWithinMs) });
  try {
    await once(socket, "connect");
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ECONNREFUSED";
  } finally {
    socket.destroy();
  }
}

async function ip(...words: readonly string[]): Promise<void> {
  await run("ip", [...words]);
}
