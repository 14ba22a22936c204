import { readFileSync } from "node:fs";
import { request } from "node:https";
import { text } from "node:stream/consumers";
import type { ClientTls } from "./certificates.ts";

/** GETs a URL with a client certificate. Throws an Error unless the answer is 200. Returns the body. */
export async function getWithCertificate(url: string, tls: ClientTls, signal: AbortSignal): Promise<string> {
  const { status, body } = await new Promise<{ status: number; body: string }>((resolve, reject) => {
    const call = request(
      url,
      // `agent: false`: a kept connection to a server that is restarted meanwhile would fail the next probe.
      {
        ca: readFileSync(tls.ca),
        cert: readFileSync(tls.cert),
        key: readFileSync(tls.key),
        signal,
        agent: false,
      },
      (response) => {
        text(response).then(
          (content) => resolve({ status: response.statusCode ?? 0, body: content }),
          reject,
        );
      },
    );
    call.on("error", reject);
    call.end();
  });
  if (status !== 200) throw new Error(`GET ${url} answered ${status}: ${body.slice(0, 500)}`);
  return body;
}
