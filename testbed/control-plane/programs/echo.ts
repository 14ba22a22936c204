import { createSocket } from "node:dgram";
import { createServer } from "node:http";
import type { HostPort } from "./host-port.ts";

/**
 * A pod of the moved cluster: answers every HTTP request with its own name and what was asked, and every datagram with
 * itself. Runs until the process ends.
 */
export async function serveEcho(options: {
  readonly listen: HostPort;
  readonly name: string;
}): Promise<void> {
  const server = createServer((request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ pod: options.name, method: request.method, url: request.url }));
  });
  const { host, port } = options.listen;
  server.listen(port, host);
  const datagrams = createSocket("udp4");
  datagrams.on("message", (message, peer) => datagrams.send(message, peer.port, peer.address));
  datagrams.bind(port, host);
}
