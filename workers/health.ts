import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * `/healthz`: the process lives. `/readyz`: it polls, so a rolling update can go on to the next.
 *
 * @param isReady asked at each request.
 * @param port 0 for any that is free.
 */
export async function serveHealth(
  isReady: () => boolean,
  { listen, port }: { listen: string; port: number },
): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const path = (request.url ?? "").split("?")[0];
    const known = path === "/healthz" || path === "/readyz";
    const good = path === "/healthz" || isReady();
    response.writeHead(known ? (good ? 200 : 503) : 404, { "content-type": "text/plain" });
    response.end(known ? (good ? "ok\n" : "not ready\n") : "not found\n");
  });
  server.listen(port, listen);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
