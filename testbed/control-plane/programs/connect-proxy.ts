import { createServer } from "node:http";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import type { HostPort } from "./host-port.ts";

export interface ConnectProxyOptions {
  readonly listen: HostPort;
  /** The VPN server: everything goes there, whatever host the client asks for. */
  readonly to: HostPort;
  /** Value of the `Reversed-VPN` header without which a client is refused. */
  readonly destination: string;
}

/**
 * The HTTP CONNECT proxy in front of the VPN server. In Gardener this is Istio:
 * one public address serves many control planes, and the header `Reversed-VPN`
 * tells which one is meant. Runs until the process ends.
 */
export async function serveConnectProxy(options: ConnectProxyOptions): Promise<void> {
  const server = createServer((_request, response) => response.writeHead(405).end());
  server.on("connect", (request: IncomingMessage, client: Socket, early: Buffer) => {
    const problem = refusal(request, options.destination);
    if (problem === undefined) tunnel(client, early, options.to);
    else refuse(client, problem);
  });
  server.listen(options.listen.port, options.listen.host);
}

function refusal(request: IncomingMessage, destination: string): string | undefined {
  const wanted = request.headers["reversed-vpn"];
  if (wanted === destination) return undefined;
  return `Reversed-VPN is ${JSON.stringify(wanted)}, wanted is ${JSON.stringify(destination)}`;
}

function refuse(client: Socket, problem: string): void {
  console.error(`refused ${client.remoteAddress}: ${problem}`);
  client.on("error", () => undefined);
  client.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
}

function tunnel(client: Socket, early: Buffer, to: HostPort): void {
  const peer = client.remoteAddress;
  // Either end may go at any time; then the other one is of no use any more.
  client.on("error", () => undefined);
  const upstream = connect(to.port, to.host);
  client.on("close", () => upstream.destroy());
  upstream.on("error", (error) => {
    console.error(`no connection to the VPN server for ${peer}: ${error.message}`);
    client.destroy();
  });
  upstream.once("connect", () => {
    console.error(`connected ${peer}`);
    for (const socket of [client, upstream]) socket.setNoDelay(true);
    client.write("HTTP/1.1 200 OK\r\n\r\n");
    upstream.write(early);
    pipeline(client, upstream, client, () => console.error(`disconnected ${peer}`));
  });
}
