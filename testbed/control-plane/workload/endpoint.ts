import { Agent } from "node:https";
import type { LookupFunction } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { HttpsClient } from "../../workload/https-client.ts";
import { answerLookup } from "./resolver.ts";

/** Where an API server is and how a client proves who it is. */
export interface Endpoint {
  /** e.g. `https://api.demo.rehome.example:443` */
  readonly origin: string;
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly lookup: LookupFunction;
}

/** The current context's server and credentials. Throws an Error when it names no server. */
export async function endpointOf(kubeconfig: string, lookup: LookupFunction): Promise<Endpoint> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const tls: { ca?: string; cert?: string; key?: string } = {};
  await config.applyToHTTPSOptions(tls);
  const { ca, cert, key } = tls;
  const server = config.getCurrentCluster()?.server;
  if (server === undefined) throw new Error(`${kubeconfig}: the current context names no server`);
  return {
    origin: new URL(server).origin,
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    },
    lookup,
  };
}

/** The same API server's name at a fixed address, whatever DNS says. */
export function atAddress(endpoint: Omit<Endpoint, "lookup">, address: string, port: number): Endpoint {
  const url = new URL(endpoint.origin);
  const lookup: LookupFunction = (_name, ...rest) => answerLookup([address], ...rest);
  return { ...endpoint, origin: `https://${url.hostname}:${port}`, lookup };
}

/** Tells each new connection: a kept one asks for no address. */
export function countingConnections(endpoint: Endpoint, connecting: () => void): Endpoint {
  const lookup: LookupFunction = (name, options, callback) => {
    connecting();
    endpoint.lookup(name, options, callback);
  };
  return { ...endpoint, lookup };
}

/** As client-go's transport: k8s.io/apimachinery/pkg/util/net/http.go, k8s.io/client-go/transport/cache.go. */
const idleConnections = 25;

/** A client program that speaks HTTP/1.1 and keeps its connections. */
export function openHttp1(endpoint: Endpoint): HttpsClient {
  const { origin, tls, lookup } = endpoint;
  const agent = new Agent({ ...tls, lookup, keepAlive: true, maxFreeSockets: idleConnections });
  return new HttpsClient({ origin, agent, isLikeGo: true });
}
