import type { EtcdCluster } from "../../etcd/membership/cluster.ts";
import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { removeObject } from "../../kubernetes/objects.ts";
import { pause, pollUntil } from "../../kubernetes/wait.ts";

const CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const NAME = "rehome-hold";
/** An address that is nobody's (RFC 5737): what is sent there is lost. */
const NOWHERE = "https://192.0.2.1/";
/** The shortest that Kubernetes takes. */
const HOLD_SECONDS = 1;
/** Quiet is a store in which nothing has been written for so long; it is not waited for longer than the hold may take. */
const QUIET = { forMs: 100, lookMs: 10, deadlineMs: 500 };
const RELEASE = { everyMs: 200, deadlineMs: 60_000 };

/**
 * A webhook that nobody answers: an API server lets each write wait for it until its timeout, and then pass, since its
 * failure is ignored. So a write is late by a second and never refused, whatever becomes of who made it. Reviews of access
 * are stored nowhere and do not wait; nor do webhooks themselves, which no webhook is asked about.
 */
const hold = {
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "ValidatingWebhookConfiguration",
  metadata: { name: NAME },
  webhooks: [
    {
      name: "hold.rehome.dev",
      clientConfig: { url: NOWHERE },
      rules: [
        {
          apiGroups: ["*"],
          apiVersions: ["*"],
          operations: ["CREATE", "UPDATE", "DELETE"],
          resources: ["*/*"],
          scope: "*",
        },
      ],
      matchConditions: [
        {
          name: "stored",
          expression: "!(request.resource.group in ['authentication.k8s.io', 'authorization.k8s.io'])",
        },
      ],
      failurePolicy: "Ignore",
      timeoutSeconds: HOLD_SECONDS,
      sideEffects: "None",
      admissionReviewVersions: ["v1"],
    },
  ],
};

/**
 * Runs `run` while no write comes to the control plane's etcd: those that clients send wait in the API servers, for a
 * second, which `run` should not exceed. Where the API server takes no such object, `run` runs without.
 * @param stores whose writes are waited for
 * @returns for how long writes were held, in ms; undefined where they could not be
 */
export async function withWritesHeld(
  api: ApiServer,
  stores: readonly EtcdCluster[],
  signal: AbortSignal,
  run: () => Promise<unknown>,
): Promise<number | undefined> {
  const begun = performance.now();
  const isHeld = await holdWrites(api, signal);
  try {
    if (isHeld) await Promise.all(stores.map(async (store) => await awaitQuiet(store, signal)));
    await run();
  } finally {
    if (isHeld) await releaseWrites(api);
  }
  return isHeld ? Math.round(performance.now() - begun) : undefined;
}

/** Ends a hold, of a worker that has died too. Nothing need be done where there is none. */
export async function releaseWrites(api: ApiServer): Promise<void> {
  const released = async () => {
    await removeObject(api, `${CONFIGURATIONS}/${NAME}`);
    return true as const;
  };
  await pollUntil(`writes at ${api.name} wait no more`, released, RELEASE);
}

async function holdWrites(api: ApiServer, signal: AbortSignal): Promise<boolean> {
  try {
    await api.json({ method: "POST", path: CONFIGURATIONS, body: hold, signal });
    return true;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status >= 500) throw error;
    // One of an attempt that died: writes that it has made late come at any time.
    if (error.reason === "AlreadyExists") await releaseWrites(api);
    return false;
  }
}

/** Until what the API servers had let in before has come to the store. */
async function awaitQuiet(store: EtcdCluster, signal: AbortSignal): Promise<void> {
  const begun = performance.now();
  let changedAt = begun;
  let seen: bigint | undefined;
  for (;;) {
    const { status } = await store.leader(signal);
    const now = performance.now();
    if (status.revision !== seen) changedAt = now;
    seen = status.revision;
    if (now - changedAt >= QUIET.forMs || now - begun >= QUIET.deadlineMs) return;
    await pause(QUIET.lookMs, signal);
  }
}
