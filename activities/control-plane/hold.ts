import { setTimeout as delay } from "node:timers/promises";
import type { EtcdCluster } from "../../etcd/membership/cluster.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
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
 * failure is ignored. So a write is late by a second and not refused, whatever becomes of who made it. Reviews of access
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

type Api = Pick<ApiServer, "name" | "request">;

/**
 * Runs `run` while no write comes to the control plane's etcd: those that clients send wait in the API servers. The hold
 * lasts until `run` has ended, and a second at most: then the first writes that waited go on. It is a courtesy to clients,
 * so where it cannot be had, `run` runs without.
 * @param stores whose writes are waited for
 * @returns for how long API servers were told to let writes wait, in ms; undefined where they were not
 */
export async function withWritesHeld(
  api: Api,
  stores: readonly EtcdCluster[],
  signal: AbortSignal,
  run: () => Promise<unknown>,
): Promise<number | undefined> {
  const begun = performance.now();
  if (!(await holdWrites(api, signal))) {
    // One of an attempt that died, or one whose answer was lost.
    await releaseQuickly(api);
    await run();
    return undefined;
  }
  const ended = new AbortController();
  const released = delay(HOLD_SECONDS * 1_000, undefined, { signal: ended.signal })
    .catch(() => undefined)
    .then(async () => {
      await releaseQuickly(api);
      return Math.round(performance.now() - begun);
    });
  try {
    const quiet = stores.map(async (store) => await awaitQuiet(store, signal));
    await Promise.allSettled(quiet);
    signal.throwIfAborted();
    await run();
  } finally {
    ended.abort();
    await released;
  }
  return await released;
}

/** Ends a hold, of a worker that has died too, as far as it can be done at once. */
export async function releaseQuickly(api: Api): Promise<void> {
  await release(api).catch(() => undefined);
}

/**
 * Ends a hold, of a worker that has died too. Nothing need be done where there is none, or where rehome may not make one.
 * @throws WaitError when the API server does not answer
 */
export async function releaseWrites(api: Api, signal: AbortSignal): Promise<void> {
  const released = async () => {
    const { status } = await release(api);
    return status < 500 && status !== 429 ? true : `${status}`;
  };
  await pollUntil(`writes at ${api.name} wait no more`, released, { ...RELEASE, signal });
}

async function release(api: Api) {
  const path = `${CONFIGURATIONS}/${NAME}`;
  return await api.request({ method: "DELETE", path, timeoutMs: 2_000, isHarmless: true });
}

async function holdWrites(api: Api, signal: AbortSignal): Promise<boolean> {
  const asked = api.request({ method: "POST", path: CONFIGURATIONS, body: hold, timeoutMs: 2_000, signal });
  const answer = await asked.catch(() => undefined);
  signal.throwIfAborted();
  return answer?.status === 201;
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
