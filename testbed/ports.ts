import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Ports are drawn from below the range from which Linux and macOS take the
 * local ports of outgoing connections: so no client can take the port of a
 * server while that server is being restarted.
 */
const [lowest, highest] = [15_000, 31_999];
const attempts = 200;
const given = new Set<number>();

/** `count` different ports on which nothing listens on 127.0.0.1; never the same port twice in one process. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let attempt = 0; ports.length < count && attempt < attempts + count; attempt++) {
    const port = randomInt(lowest, highest + 1);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    ports.push(port);
  }
  if (ports.length < count) throw new Error(`no free port found between ${lowest} and ${highest}`);
  return ports;
}

/** One free port; see {@link freePorts}. */
export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port as number;
}

/** Throws an Error that names the port and its purpose if something listens on it already. */
export async function requireFree(port: number, purpose: string): Promise<void> {
  if (!(await isFree(port))) throw new Error(`port ${port} on 127.0.0.1, wanted for ${purpose}, is in use`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  server.listen({ port, host: "127.0.0.1", exclusive: true });
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
