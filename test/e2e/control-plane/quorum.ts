import { EtcdCluster } from "../../../etcd/membership/cluster.ts";
import { listMembers } from "../../../etcd/membership/converge.ts";
import type { Member } from "../../../etcd/membership/types.ts";
import { credentialsOf } from "../../../hosting/statefulset/members.ts";
import { SeedNamespace } from "../../../hosting/statefulset/seed.ts";
import { etcdNames, seedNamespace } from "../../../testbed/control-plane/names.ts";
import { otherSeed } from "./bed.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";

/**
 * Longer without a linearizable answer is a cluster without quorum. A leader's move takes a fraction of it, but one look at
 * a seed whose members have just been removed may take 3 s, and then the other seed is asked.
 */
const SILENCE_MS = 12_000;
/** Two calls, on a machine with many servers. */
const EVEN_MS = 5_000;
const LOOK_EVERY_MS = 250;

const SILENT = "no quorum";

/** Without the times in which nobody answered, which a cut network explains. */
export function rulesBroken(problems: readonly string[]): string[] {
  return problems.filter((problem) => !problem.includes(SILENT));
}

export interface QuorumWatch extends AsyncDisposable {
  /** Ends the watch. @returns what was seen that must not be. */
  problems(): Promise<readonly string[]>;
}

/**
 * Asks each etcd for its members again and again, linearizably, which only a quorum answers, and judges each list: at
 * most one learner, and voters that are even between the seeds for a moment only.
 * @param from seed that the control plane is in at first; its members are asked for as long as they answer.
 */
export function watchQuorum(bed: ControlPlaneBed, from: SeedName): QuorumWatch {
  const stop = new AbortController();
  const problems: string[] = [];
  const watching = Promise.all(etcdNames.map((etcd) => watchOne(bed, from, etcd, problems, stop.signal)));
  const end = async () => {
    stop.abort();
    await watching;
    return problems;
  };
  return { problems: end, [Symbol.asyncDispose]: async () => void (await end()) };
}

async function watchOne(
  bed: ControlPlaneBed,
  from: SeedName,
  etcd: string,
  problems: string[],
  signal: AbortSignal,
): Promise<void> {
  let seed = from;
  let answeredAt = performance.now();
  let unevenAt = performance.now();
  while (!signal.aborted) {
    const members = await ask(bed, seed, etcd);
    const now = performance.now();
    if (members === undefined) {
      seed = otherSeed(seed);
      if (now - answeredAt > SILENCE_MS) {
        problems.push(`${etcd}: ${SILENT} for ${Math.round(now - answeredAt)} ms`);
        answeredAt = now;
      }
    } else {
      answeredAt = now;
      if (members.filter(({ learner }) => learner).length > 1) problems.push(`${etcd}: two learners`);
      if (isUneven(members)) unevenAt = now;
      else if (now - unevenAt > EVEN_MS)
        problems.push(`${etcd}: neither seed could go on alone for ${EVEN_MS} ms`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** @returns undefined when the members of that seed do not answer. */
async function ask(
  bed: ControlPlaneBed,
  seed: SeedName,
  etcd: string,
): Promise<readonly Member[] | undefined> {
  const never = AbortSignal.timeout(3_000);
  try {
    const namespace = new SeedNamespace(bed.testbed.seeds[seed].api, seedNamespace);
    const tls = await credentialsOf(namespace, etcd, never);
    const host = await namespace.ingressOf(`${etcd}-client-external`, never);
    using cluster = new EtcdCluster({ name: etcd, endpoints: [`https://${host}:2379`], tls });
    return (await listMembers(cluster, never)).members;
  } catch {
    return undefined;
  }
}

/** Whether one of the seeds has more than half of the voters. */
function isUneven(members: readonly Member[]): boolean {
  const voters = members.filter(({ learner }) => !learner);
  const first = voters.filter(({ name }) => name.startsWith("seed-a-")).length;
  return first * 2 !== voters.length;
}
