import { Agent } from "node:https";
import { KubeConfig } from "@kubernetes/client-node";
import { jsonFrom } from "./http.ts";
import type { Sent } from "./http.ts";
import { HttpsClient } from "./https-client.ts";

/** Clients of one program share this many connections at most. */
const connections = 128;

/** The front-proxy as a client program sees it. */
export class FrontProxy extends HttpsClient {
  /** @param context one whose server has no `/clusters/...` path */
  static async open(kubeconfig: string, context = "base"): Promise<FrontProxy> {
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    config.setCurrentContext(context);
    const options: { ca?: string; cert?: string; key?: string } = {};
    await config.applyToHTTPSOptions(options);
    const { ca, cert, key } = options;
    const agent = new Agent({
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      keepAlive: true,
      maxSockets: connections,
    });
    const server = config.getCurrentCluster()?.server;
    if (server === undefined) throw new Error(`${kubeconfig}: context ${context} names no server`);
    return new FrontProxy({ origin: new URL(server).origin, agent });
  }

  /**
   * @returns the JSON of a 2xx answer.
   * @throws Error with request, status and answer for any other
   */
  async json<T>(sent: Sent): Promise<T> {
    return await jsonFrom<T>(this, sent);
  }
}
