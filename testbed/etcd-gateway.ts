import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { json } from "node:stream/consumers";
import type { ClientTls } from "./certificates.ts";

/**
 * Calls an etcd through its JSON gateway, with the client certificate.
 * @param path e.g. `/v3/kv/range`; keys and values in the body are base64, 64-bit numbers are strings.
 * @throws Error with etcd's words when it refuses.
 */
export async function callEtcd(
  endpoint: string,
  tls: ClientTls,
  path: string,
  body: object,
): Promise<Record<string, unknown>> {
  const files = { ca: readFileSync(tls.ca), cert: readFileSync(tls.cert), key: readFileSync(tls.key) };
  const call = request(`${endpoint}${path}`, { method: "POST", ...files });
  call.end(JSON.stringify(body));
  const [response] = (await once(call, "response")) as [IncomingMessage];
  const answer = await json(response);
  if (response.statusCode === 200) return answer as Record<string, unknown>;
  throw new Error(`${endpoint}${path} answered ${response.statusCode}: ${JSON.stringify(answer)}`);
}
