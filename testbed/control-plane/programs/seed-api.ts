import { readFileSync } from "node:fs";
import { request } from "node:https";
import { json } from "node:stream/consumers";

const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";
const timeoutMs = 5_000;

export interface SeedAnswer {
  readonly status: number;
  readonly body: unknown;
}

/**
 * One request to the seed's API server with the pod's own service account, as
 * any program in a cluster makes it. A full client library would need five
 * times the memory of everything else here.
 */
export async function askSeed(
  method: "GET" | "POST" | "PUT",
  path: string,
  body?: unknown,
): Promise<SeedAnswer> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
  const { promise, resolve, reject } = Promise.withResolvers<SeedAnswer>();
  const call = request(
    {
      method,
      host,
      port,
      path,
      ca: readFileSync(`${accountFolder}/ca.crt`),
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        // Read each time: the kubelet replaces it before it expires.
        authorization: `Bearer ${readFileSync(`${accountFolder}/token`, "utf8")}`,
        "content-type": "application/json",
      },
    },
    (response) => {
      json(response).then((content) => resolve({ status: response.statusCode ?? 0, body: content }), reject);
    },
  );
  call.on("error", reject);
  call.end(body === undefined ? undefined : JSON.stringify(body));
  return await promise;
}
