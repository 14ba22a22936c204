import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CertificateAuthority } from "../../../testbed/certificates.ts";
import type { KubeObject, Objects } from "./objects.ts";

export const ADMISSION = "/apis/admissionregistration.k8s.io/v1";
const CONFIGURATIONS = `${ADMISSION}/validatingwebhookconfigurations`;

interface Asked {
  readonly uid: string;
  /** Empty where a collection is deleted. */
  readonly name: string;
  /** What is deleted. */
  readonly oldObject: KubeObject | null;
}

/** A validating webhook of a tenant that is asked about ConfigMaps, until disposed. */
export async function startWebhook(
  objects: Objects,
  operation: "CREATE" | "DELETE",
  allows: (asked: Asked) => boolean | Promise<boolean>,
): Promise<AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), "rehome-webhook-"));
  const authority = await CertificateAuthority.create(dir, "webhook-ca");
  const files = await authority.issue("webhook");
  const server = createServer({ cert: readFileSync(files.cert), key: readFileSync(files.key) });
  server.on("request", (request, response) => void answer(request, response, allows));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await objects.create(CONFIGURATIONS, {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: "hook" },
    webhooks: [
      {
        name: "hook.rehome.test",
        clientConfig: {
          url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
          caBundle: readFileSync(authority.file).toString("base64"),
        },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: [operation], resources: ["configmaps"] }],
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
        timeoutSeconds: 30,
      },
    ],
  });
  return {
    async [Symbol.asyncDispose]() {
      await objects.remove(`${CONFIGURATIONS}/hook`);
      server.close();
      server.closeAllConnections();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  allows: (asked: Asked) => boolean | Promise<boolean>,
): Promise<void> {
  const body = await request.toArray();
  const { request: asked } = JSON.parse(Buffer.concat(body).toString()) as { request: Asked };
  const answered = { uid: asked.uid, allowed: await allows(asked) };
  response.setHeader("content-type", "application/json");
  response.end(
    JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: answered }),
  );
}
