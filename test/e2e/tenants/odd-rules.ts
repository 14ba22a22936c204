import { expect } from "vitest";
import { pollUntil } from "../../../kubernetes/wait.ts";
import { CONFIG_MAPS, SECRETS, configMap } from "../harness/objects.ts";
import type { Objects } from "../harness/objects.ts";
import { makeRobot, serverAs } from "../harness/robot.ts";
import { ADMISSION, startWebhook } from "../harness/webhook.ts";
import { API, makeNamespace } from "./oddity.ts";
import type { Oddity } from "./oddity.ts";

/** Objects that make the API server do something: credentials, limits, policies, webhooks. */
export function oddRules(): Oddity[] {
  return [serviceAccountTokens(), quota(), admissionPolicy(), admissionWebhook()];
}

async function statusOf(objects: Objects, collection: string, body: object): Promise<number> {
  const path = objects.path(collection);
  return (await objects.server.request({ method: "POST", path, body })).status;
}

function serviceAccountTokens(): Oddity {
  let requested = "";
  let stored = "";
  return {
    what: "tokens of service accounts, requested and stored in a Secret",
    async before({ objects }) {
      requested = await makeRobot(objects);
      const annotations = { "kubernetes.io/service-account.name": "robot" };
      await objects.create(SECRETS, {
        metadata: { name: "robot-token", annotations },
        type: "kubernetes.io/service-account-token",
      });
      await objects.until(`${SECRETS}/robot-token`, (found) => found?.data?.["token"] !== undefined);
      const { data } = await objects.get(`${SECRETS}/robot-token`);
      stored = Buffer.from(data!["token"]!, "base64").toString();
    },
    async after({ bed, objects }) {
      const { data } = await objects.get(`${SECRETS}/robot-token`);
      expect(Buffer.from(data!["token"]!, "base64").toString()).toBe(stored);
      for (const [name, token] of Object.entries({ requested, stored })) {
        const robot = await serverAs(token, { kubeconfig: bed.kubeconfig, context: "base" });
        const path = objects.path(CONFIG_MAPS);
        const read = await robot.request({ path: `${path}/settings-alpha` });
        expect([name, read.status]).toEqual([name, 200]);
        const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `by-robot-${name}` } };
        expect((await robot.request({ method: "POST", path, body })).status).toBe(201);
        expect((await robot.request({ path: objects.path(SECRETS) })).status).toBe(403);
      }
    },
  };
}

function quota(): Oddity {
  const space = `${API}/namespaces/limited`;
  const quotaPath = `${space}/resourcequotas/few`;
  const used = async (objects: Objects, count: string) =>
    await objects.until(quotaPath, (found) => {
      const status = found?.status as { used?: Record<string, string> } | undefined;
      return status?.used?.["count/secrets"] === count;
    });
  const secret = (name: string) => ({ metadata: { name }, data: {} });
  return {
    what: "a quota that is used up",
    async before({ objects }) {
      await makeNamespace(objects, "limited");
      await objects.create(`${space}/resourcequotas`, {
        metadata: { name: "few" },
        spec: { hard: { "count/secrets": "3" } },
      });
      await used(objects, "0");
      for (const name of ["one", "two"]) await objects.create(`${space}/secrets`, secret(name));
      await used(objects, "2");
    },
    async beforeCutover({ objects }) {
      await objects.create(`${space}/secrets`, secret("three"));
    },
    async after({ objects }) {
      await used(objects, "3");
      expect(await statusOf(objects, `${space}/secrets`, secret("four"))).toBe(403);
      await objects.remove(`${space}/secrets/one`);
      await used(objects, "2");
      await objects.create(`${space}/secrets`, secret("five"));
    },
  };
}

const onConfigMaps = {
  apiGroups: [""],
  apiVersions: ["v1"],
  operations: ["CREATE"],
  resources: ["configmaps"],
};

function admissionPolicy(): Oddity {
  const forbidden = configMap("forbidden-x", {});
  const metadata = { name: "no-forbidden" };
  return {
    what: "a ValidatingAdmissionPolicy",
    async before({ objects }) {
      await objects.create(`${ADMISSION}/validatingadmissionpolicies`, {
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: "ValidatingAdmissionPolicy",
        metadata,
        spec: {
          failurePolicy: "Fail",
          matchConstraints: { resourceRules: [onConfigMaps] },
          validations: [{ expression: "!object.metadata.name.startsWith('forbidden')" }],
        },
      });
      await objects.create(`${ADMISSION}/validatingadmissionpolicybindings`, {
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: "ValidatingAdmissionPolicyBinding",
        metadata,
        spec: { policyName: metadata.name, validationActions: ["Deny"] },
      });
      await untilRefused(objects, forbidden);
    },
    async after({ objects }) {
      await untilRefused(objects, forbidden);
      await objects.create(CONFIG_MAPS, configMap("allowed-x", {}));
    },
  };
}

/** A policy or webhook takes effect a moment after it was made, or moved. */
async function untilRefused(objects: Objects, body: object): Promise<void> {
  const { metadata } = body as { metadata: { name: string } };
  const look = async () => {
    const status = await statusOf(objects, CONFIG_MAPS, body);
    if (status === 201) await objects.remove(`${CONFIG_MAPS}/${metadata.name}`);
    return status === 400 || status === 403 || status === 422 || String(status);
  };
  await pollUntil(`${metadata.name} is refused`, look, { everyMs: 100, deadlineMs: 240_000 });
}

/** A webhook of the tenant, that refuses ConfigMaps called `hooked`. */
function admissionWebhook(): Oddity {
  const hooked = configMap("hooked", {});
  let asked = 0;
  let webhook: AsyncDisposable;
  return {
    what: "an admission webhook",
    async before({ objects }) {
      webhook = await startWebhook(objects, "CREATE", ({ name }) => {
        asked += 1;
        return name !== "hooked";
      });
      await untilRefused(objects, hooked);
    },
    async after({ objects }) {
      const before = asked;
      await untilRefused(objects, hooked);
      expect(asked).toBeGreaterThan(before);
      await objects.create(CONFIG_MAPS, configMap("not-hooked", {}));
      await webhook[Symbol.asyncDispose]();
    },
  };
}
