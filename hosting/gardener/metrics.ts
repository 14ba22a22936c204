import { request } from "node:https";
import type { EtcdCredentials } from "../types.ts";

const TIMEOUT_MS = 10_000;

/** The metrics that an etcd member serves to its clients. druid opens no listener for metrics alone. */
export async function metricsOf(
  clientUrl: string,
  { ca, cert, key, serverName }: EtcdCredentials,
  signal: AbortSignal,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const options = { ca, cert, key, servername: serverName, signal, timeout: TIMEOUT_MS };
  const asked = request(`${clientUrl}/metrics`, options, (response) => {
    const chunks: Buffer[] = [];
    response.on("data", (chunk: Buffer) => chunks.push(chunk));
    response.on("error", reject);
    response.on("end", () => resolve(Buffer.concat(chunks).toString()));
  });
  asked.on("error", reject);
  asked.on("timeout", () => asked.destroy(new Error(`${clientUrl} does not answer`)));
  asked.end();
  return await promise;
}
