import { lookup as systemLookup, Resolver } from "node:dns";
import type { LookupFunction } from "node:net";
import {
  CoordinationV1Api,
  CoreV1Api,
  createConfiguration,
  DiscoveryV1Api,
  KubeConfig,
  PatchStrategy,
  ServerConfiguration,
  setHeaderOptions,
} from "@kubernetes/client-node";
import type { RequestContext } from "@kubernetes/client-node";

/** The parts of the API that a node needs. */
export interface NodeApi {
  readonly config: KubeConfig;
  readonly core: CoreV1Api;
  readonly coordination: CoordinationV1Api;
  readonly discovery: DiscoveryV1Api;
}

/** A plain call that takes longer has lost its server: the next try asks the DNS for another one. */
const requestTimeoutMs = 10_000;
const dnsTimeoutMs = 2_000;

/** Header option for patches of a status: lists of conditions are merged by their type. */
export const strategicMergePatch = setHeaderOptions("Content-Type", PatchStrategy.StrategicMergePatch);

/** Header option for patches that replace lists as a whole. */
export const mergePatch = setHeaderOptions("Content-Type", PatchStrategy.MergePatch);

type ApplyAuthentication = KubeConfig["applySecurityAuthentication"];
type DispatcherOptionsOf = KubeConfig["createDispatcherOptions"];

/** A kubeconfig whose connections are shared by all requests, and whose server's name is resolved as told. */
class SharedConnections extends KubeConfig {
  readonly #lookup: LookupFunction;
  #dispatcher: ReturnType<RequestContext["getDispatcher"]>;

  constructor(lookup: LookupFunction) {
    super();
    this.#lookup = lookup;
  }

  override createDispatcherOptions(
    ...given: Parameters<DispatcherOptionsOf>
  ): ReturnType<DispatcherOptionsOf> {
    const options = super.createDispatcherOptions(...given);
    return options.type === "agent"
      ? { ...options, connect: { ...options.connect, lookup: this.#lookup } }
      : options;
  }

  override async applySecurityAuthentication(...[context]: Parameters<ApplyAuthentication>): Promise<void> {
    await super.applySecurityAuthentication(context);
    // The library makes one pool of connections per request, and with it one TLS handshake.
    this.#dispatcher ??= context.getDispatcher();
    if (this.#dispatcher !== undefined) context.setDispatcher(this.#dispatcher);
  }
}

/**
 * Clients for the API server that a kubeconfig names.
 * @param dnsServer `address:port` of the server that resolves the API server's name; default: the system's
 */
export function connectToApi(kubeconfig: string, dnsServer?: string): NodeApi {
  const config = new SharedConnections(dnsServer === undefined ? systemLookup : lookupAt(dnsServer));
  config.loadFromFile(kubeconfig);
  const server = config.getCurrentCluster()?.server;
  if (server === undefined) throw new Error(`${kubeconfig}: its current context names no server`);
  const configuration = createConfiguration({
    baseServer: new ServerConfiguration(server, {}),
    authMethods: { default: config },
    promiseMiddleware: [{ pre: withTimeout, post: async (response) => response }],
  });
  return {
    config,
    core: new CoreV1Api(configuration),
    coordination: new CoordinationV1Api(configuration),
    discovery: new DiscoveryV1Api(configuration),
  };
}

async function withTimeout(context: RequestContext): Promise<RequestContext> {
  context.setSignal(AbortSignal.timeout(requestTimeoutMs));
  return context;
}

/** Looks names up at one server, anew for each connection: a record with TTL 0 is obeyed. IPv4 only. */
export function lookupAt(server: string): LookupFunction {
  const resolver = new Resolver({ timeout: dnsTimeoutMs, tries: 2 });
  resolver.setServers([server]);
  return (hostname, options, callback) => {
    resolver.resolve4(hostname, (error, addresses) => {
      if (error !== null) callback(error, "");
      else if (options.all === true)
        callback(
          null,
          addresses.map((address) => ({ address, family: 4 })),
        );
      else callback(null, addresses[0] as string, 4);
    });
  };
}

/** HTTP status of an error of the client library; undefined for one that came from the way to the server. */
export function statusOf(error: unknown): number | undefined {
  const code = (error as { code?: unknown }).code;
  return typeof code === "number" ? code : undefined;
}

/** The result of a call, or undefined where the server answers that there is no such object. */
export async function ifFound<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (statusOf(error) === 404) return undefined;
    throw error;
  }
}
