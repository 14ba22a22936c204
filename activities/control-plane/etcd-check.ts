import { EtcdCluster } from "../../etcd/membership/cluster.ts";
import { listMembers } from "../../etcd/membership/converge.ts";
import { listAlarms } from "../../etcd/membership/sync.ts";
import type { EtcdInspection, Hosting } from "../../hosting/types.ts";
import { pause } from "../../kubernetes/wait.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { EtcdState } from "./types.ts";

/** Where readiness is false on a learner, and a promotion survives a crash. */
const OLDEST_ETCD = [3, 6] as const;
/** A load balancer has its address some time before it works. */
const REACHED = { everyMs: 1_000, deadlineMs: 120_000 };

/**
 * Asks each etcd of the source whether it is fit for a move. One that the worker does not reach before its members are
 * exposed is checked then, and says so here.
 * @throws ApplicationFailure `Refused`
 */
export async function checkEtcds(
  hosting: Hosting,
  controlPlane: string,
  inspections: readonly EtcdInspection[],
  signal: AbortSignal,
): Promise<EtcdState[]> {
  const states: EtcdState[] = [];
  for (const { members, ...known } of inspections) {
    const [endpoints, tls] = await Promise.all([
      hosting.clientUrls("source", known.name, signal),
      hosting.credentials(known.name, signal),
    ]);
    if (endpoints.length === 0) {
      const unchecked = "its members are not reached from here yet: checked in ExposeSourcePeers";
      states.push({ ...known, unchecked });
      continue;
    }
    using cluster = new EtcdCluster({ name: `${known.name} of ${controlPlane}`, endpoints, tls });
    states.push({ ...known, ...(await checkEtcd(cluster, endpoints, members, signal)) });
  }
  requireSameVersion(states);
  return states;
}

/** As {@link checkEtcds}, just after the members have been given addresses, which may take a while to work. */
export async function checkExposedEtcds(
  hosting: Hosting,
  controlPlane: string,
  signal: AbortSignal,
): Promise<EtcdState[]> {
  const { etcds, refusals } = await hosting.inspect(signal);
  if (etcds.length === 0) throw new Error(`${controlPlane} has no etcd: ${refusals.join("; ")}`);
  await Promise.all(etcds.map(async ({ name }) => await awaitReached(hosting, name, signal)));
  return await checkEtcds(hosting, controlPlane, etcds, signal);
}

/** Until all of them answer, or it is time to say what is wrong. */
async function awaitReached(hosting: Hosting, etcd: string, signal: AbortSignal): Promise<void> {
  const endpoints = await hosting.clientUrls("source", etcd, signal);
  using cluster = new EtcdCluster({ name: etcd, endpoints, tls: await hosting.credentials(etcd, signal) });
  const end = performance.now() + REACHED.deadlineMs;
  while ((await cluster.locate(signal)).unanswered.length > 0 && performance.now() < end)
    await pause(REACHED.everyMs, signal);
}

async function checkEtcd(
  cluster: EtcdCluster,
  endpoints: readonly string[],
  members: number,
  signal: AbortSignal,
): Promise<Pick<EtcdState, "version" | "clusterId" | "revision" | "dbBytes">> {
  const { answered, unanswered } = await cluster.locate(signal);
  const [first] = answered;
  if (first === undefined) {
    throw failure("Refused", {
      message: `${cluster.name} does not answer at ${endpoints.join(", ")}`,
      found: unanswered.map(({ error }) => (error as Error).message).join("; "),
      advice:
        "check the Service for clients from outside, and that the Secret for etcd's clients is of the etcd's authority",
    });
  }
  const { clusterId, members: list } = await listMembers(cluster, signal);
  const alarms = await listAlarms(cluster, signal);
  const problems = [
    ...(list.length === members
      ? []
      : [`it has ${list.length} members instead of ${members}: a foreign one?`]),
    ...list.filter(({ learner }) => learner).map(({ id }) => `${id} is a learner`),
    ...list.filter((member) => member.name === "").map(({ id }) => `${id} has never started`),
    ...alarms.map(({ member, alarm }) => `alarm ${alarm} at ${member}`),
    ...(isRecent(first.status.version)
      ? []
      : [`it is version ${first.status.version}; needed is 3.6 or later`]),
  ];
  if (problems.length > 0) {
    throw failure("Refused", {
      message: `${cluster.name} is not fit for a move`,
      found: problems.join("; "),
      advice: "mend it first (etcdctl member list, etcdctl alarm list)",
    });
  }
  const { version, revision, dbBytes } = first.status;
  return { version, clusterId, revision: String(revision), dbBytes };
}

function requireSameVersion(etcds: readonly EtcdState[]): void {
  const asked = etcds.filter(({ version }) => version !== undefined);
  const minors = new Set(asked.map(({ version }) => version!.split(".").slice(0, 2).join(".")));
  if (minors.size <= 1) return;
  throw failure("Refused", {
    message: "the etcds of the control plane have different minor versions",
    found: asked.map(({ name, version }) => `${name} ${version}`).join(", "),
    advice: "finish the upgrade first",
  });
}

function isRecent(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > OLDEST_ETCD[0] || (major === OLDEST_ETCD[0] && minor >= OLDEST_ETCD[1]);
}
