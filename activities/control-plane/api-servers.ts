import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { addressTypeOf } from "../../hosting/address-type.ts";
import type { ApiServerAddress } from "../../hosting/types.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { selectors } from "../../kubernetes/objects.ts";
import { WaitError, pause, pollUntil } from "../../kubernetes/wait.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { releaseWrites } from "./hold.ts";
import { apiOf, step, undoStep } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities } from "./types.ts";

type Steps = Pick<
  ControlPlaneActivities,
  | "startDestinationApiServers"
  | "stopDestinationApiServers"
  | "drainSourceApiServers"
  | "restartSourceApiServers"
>;

const READY_LOOK_MS = 200;
const READY_WITHIN_MS = 120_000;
/** The name leads to servers that serve nobody all the time, so it is given back soon. */
const SERVES = { everyMs: 1_000, deadlineMs: 5 * 60_000 };
const DRAIN_LOOK_MS = 1_000;
/** In a row, so that a lost connection does not end the wait. */
const SILENT_LOOKS = 3;
/** Where the proof of a write is made: a namespace that every cluster has. */
const PROOFS = "/api/v1/namespaces/kube-system/configmaps";
const PROOF_LABELS = { "rehome.dev/proof": "true" };

export function createApiServerActivities(sites: ControlPlaneSites): Steps {
  return {
    startDestinationApiServers: step(sites, "StartDestinationKubeAPIServer", async (session) => {
      await session.hosting.startApiServers("destination", session.signal);
      const [source, destination] = [await apiOf(session, "source"), await apiOf(session, "destination")];
      await awaitReady(destination, session.signal);
      await proveSameData(source, destination);
      await proveSameData(destination, source);
      return await addressOfOneKind(session);
    }),

    stopDestinationApiServers: undoStep(sites, "StartDestinationKubeAPIServer", async (session) => {
      const { hosting, signal } = session;
      // What is cut off goes with its namespace, when it is back; until then the quorum must not wait for it.
      if (await hosting.isReachable("destination", signal))
        await hosting.stopApiServers("destination", signal);
      if (await hosting.isReachable("source", signal))
        await removeProofs(await apiOf(session, "source"), signal);
    }),

    drainSourceApiServers: step(sites, "DrainSourceKubeAPIServer", async (session, { drainMs }) => {
      const { hosting, signal } = session;
      const started = performance.now();
      const longRunning = await awaitDrained(await apiOf(session, "source"), drainMs, signal);
      const waitedMs = Math.round(performance.now() - started);
      const destination = await apiOf(session, "destination");
      await mustServe(session, destination);
      await hosting.stopApiServers("source", signal);
      await awaitReady(destination, signal);
      return { longRunning, waitedMs };
    }),

    restartSourceApiServers: undoStep(sites, "DrainSourceKubeAPIServer", async (session) => {
      await session.hosting.startApiServers("source", session.signal);
      const source = await apiOf(session, "source");
      await awaitReady(source, session.signal);
      await releaseWrites(source, session.signal);
    }),
  };
}

/**
 * The address of the destination's API servers.
 * @throws ApplicationFailure `Refused` when the name's record cannot hold it: a record of one type is replaced in one
 *   step, so that it resolves all the time, and one of another type is another record.
 */
async function addressOfOneKind({ hosting, signal, subject, config }: Session): Promise<ApiServerAddress> {
  const before = await hosting.apiServerAddress("source", signal);
  const after = await hosting.apiServerAddress("destination", signal);
  const [typeBefore, typeAfter] = [addressTypeOf(before.values), addressTypeOf(after.values)];
  if (typeBefore === typeAfter) return after;
  throw failure("Refused", {
    message: `the API servers at ${subject.to} have an address of another kind than those at ${subject.from}`,
    expected: `a value for the ${typeBefore} record ${config.apiServer.dnsName}, as ${before.values.join(", ")}`,
    found: `${after.values.join(", ")}, which takes a ${typeAfter} record`,
    advice: "give the load balancers of both seeds addresses of the same kind",
  });
}

/** @returns what came instead of readiness, or undefined when all is well. */
export async function whyNotReady(api: ApiServer, signal: AbortSignal): Promise<string | undefined> {
  const { status, body } = await api.request({ path: "/readyz", timeoutMs: 5_000, signal });
  return status === 200 ? undefined : `${status} ${body.slice(0, 200)}`;
}

/**
 * The source's API servers may be the only ones that serve, and are reached again only when the name leads to them.
 * @throws ApplicationFailure `Refused` when the destination's have not served for long.
 */
async function mustServe({ hosting, subject, signal }: Session, destination: ApiServer): Promise<void> {
  const serves = async () => {
    await proveSameData(destination, destination);
    return true as const;
  };
  try {
    await pollUntil(`${destination.name} serves`, serves, { ...SERVES, signal });
  } catch (error) {
    if (!(error instanceof WaitError)) throw error;
    // Without the source there is no quorum, and without the claim no way to ask.
    await hosting.requireClaim(signal);
    if (!(await hosting.isReachable("source", signal))) throw error;
    throw failure("Refused", {
      message: `the API servers at ${subject.to} do not serve; those at ${subject.from} are left as they are`,
      found: error.seen,
      advice: `mend the API servers at ${subject.to}, and start the move again`,
    });
  }
}

/** @throws WaitError when it is not by then. */
export async function awaitReady(
  api: ApiServer,
  signal: AbortSignal,
  deadlineMs: number = READY_WITHIN_MS,
): Promise<void> {
  const ready = async () => (await whyNotReady(api, signal)) ?? true;
  await pollUntil(`${api.name} is ready`, ready, { everyMs: READY_LOOK_MS, deadlineMs, signal });
}

/** Writes through one API server and reads it through another: they serve the same etcd, and reads are not stale. */
export async function proveSameData(writer: ApiServer, reader: ApiServer): Promise<void> {
  const name = `rehome-proof-${randomUUID()}`;
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels: PROOF_LABELS } };
  const made = await writer.json<{ metadata: { uid: string } }>({ method: "POST", path: PROOFS, body });
  try {
    const found = await reader.find<{ metadata: { uid: string } }>({ path: `${PROOFS}/${name}` });
    if (found?.metadata.uid !== made.metadata.uid) {
      throw failure("NotVerified", {
        message: `${reader.name} does not show what was just written through ${writer.name}`,
        advice: "look at which etcd each of them uses (--etcd-servers)",
      });
    }
  } finally {
    await writer.request({ method: "DELETE", path: `${PROOFS}/${name}` });
  }
}

/**
 * Deletes proofs whose writers have died before they could: called when nobody proves anything any more. One that cannot
 * be deleted harms nobody, and holds up nothing.
 */
export async function removeProofs(api: ApiServer, signal: AbortSignal): Promise<void> {
  const path = `${PROOFS}?${selectors({ labels: PROOF_LABELS })}`;
  await api.request({ method: "DELETE", path, signal }).catch(() => signal.throwIfAborted());
}

/**
 * Waits until nobody uses the API server any more, as far as it tells, or the time is up. One that is silent is used by
 * nobody: it is dead, or an earlier attempt has stopped it.
 * @returns how many watches and other long requests were left.
 */
async function awaitDrained(api: ApiServer, drainMs: number, signal: AbortSignal): Promise<number> {
  const end = performance.now() + drainMs;
  for (let silent = 0; silent < SILENT_LOOKS;) {
    const left = await longRunningRequests(api, signal);
    if (left === 0 || performance.now() > end) return left ?? 0;
    silent = left === undefined ? silent + 1 : 0;
    await pause(DRAIN_LOOK_MS, signal);
  }
  return 0;
}

/** kube-apiserver's gauge of watches, execs and the like; undefined when it does not answer. */
async function longRunningRequests(api: ApiServer, signal: AbortSignal): Promise<number | undefined> {
  const answer = await api.request({ path: "/metrics", timeoutMs: 5_000, signal }).catch(() => undefined);
  signal.throwIfAborted();
  if (answer?.status !== 200) return undefined;
  const { body } = answer;
  const values = body.matchAll(/^apiserver_longrunning_requests\{[^}]*\} (\S+)$/gm);
  return [...values].reduce((sum, [, value]) => sum + Number(value), 0);
}
