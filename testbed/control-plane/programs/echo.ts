import { createServer } from "node:http";
import type { HostPort } from "./host-port.ts";

/** Answers every HTTP request with its own name and what was asked: a pod of the moved cluster. Runs until the process ends. */
export async function serveEcho(options: {
  readonly listen: HostPort;
  readonly name: string;
}): Promise<void> {
  const server = createServer((request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ pod: options.name, method: request.method, url: request.url }));
  });
  server.listen(options.listen.port, options.listen.host);
}
