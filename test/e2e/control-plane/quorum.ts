import { EtcdCluster } from "../../../etcd/membership/cluster.ts";
import type { ClusterOptions } from "../../../etcd/membership/cluster.ts";
import { listMembers } from "../../../etcd/membership/converge.ts";
import type { Member } from "../../../etcd/membership/types.ts";
import { credentialsOf } from "../../../hosting/statefulset/members.ts";
import { SeedNamespace } from "../../../hosting/statefulset/seed.ts";
import { etcdNames, seedNamespace } from "../../../testbed/control-plane/names.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";

/** Longer without a linearizable answer is a cluster without quorum. A leader's move takes a fraction of it. */
const SILENCE_MS = 12_000;
const LOOK_MS = 3_000;
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
 */
export function watchQuorum(bed: ControlPlaneBed): QuorumWatch {
  const stop = new AbortController();
  const problems: string[] = [];
  const watching = Promise.all(etcdNames.map((etcd) => watchOne(bed, etcd, problems, stop.signal)));
  const end = async () => {
    stop.abort();
    await watching;
    return problems;
  };
  return { problems: end, [Symbol.asyncDispose]: async () => void (await end()) };
}

async function watchOne(
  bed: ControlPlaneBed,
  etcd: string,
  problems: string[],
  signal: AbortSignal,
): Promise<void> {
  const members = new MemberList(bed, etcd);
  let answeredAt = performance.now();
  let unevenAt = performance.now();
  while (!signal.aborted) {
    const list = await members.ask();
    const now = performance.now();
    if (list !== undefined) {
      answeredAt = now;
      if (list.filter(({ learner }) => learner).length > 1) problems.push(`${etcd}: two learners`);
      if (isUneven(list)) unevenAt = now;
      else if (now - unevenAt > EVEN_MS)
        problems.push(`${etcd}: neither seed could go on alone for ${EVEN_MS} ms`);
    } else if (now - answeredAt > SILENCE_MS) {
      problems.push(`${etcd}: ${SILENT} for ${Math.round(now - answeredAt)} ms`);
      answeredAt = now;
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** The list of an etcd's members, from whichever seed answers first. */
class MemberList {
  readonly #bed: ControlPlaneBed;
  readonly #etcd: string;
  /** How the members of a seed are reached; asked for again when they do not answer, since they come and go. */
  readonly #ways = new Map<SeedName, ClusterOptions>();

  constructor(bed: ControlPlaneBed, etcd: string) {
    this.#bed = bed;
    this.#etcd = etcd;
  }

  /** @returns undefined when neither seed's members answer. */
  async ask(): Promise<readonly Member[] | undefined> {
    const seeds: readonly SeedName[] = ["seed-a", "seed-b"];
    return await Promise.any(seeds.map(async (seed) => await this.#askAt(seed))).catch(() => undefined);
  }

  async #askAt(seed: SeedName): Promise<readonly Member[]> {
    const signal = AbortSignal.timeout(LOOK_MS);
    try {
      const way = this.#ways.get(seed) ?? (await this.#find(seed, signal));
      this.#ways.set(seed, way);
      using cluster = new EtcdCluster(way);
      return (await listMembers(cluster, signal)).members;
    } catch (error) {
      this.#ways.delete(seed);
      throw error;
    }
  }

  async #find(seed: SeedName, signal: AbortSignal): Promise<ClusterOptions> {
    const namespace = new SeedNamespace(this.#bed.testbed.seeds[seed].api, seedNamespace);
    const tls = await credentialsOf(namespace, this.#etcd, signal);
    const host = await namespace.ingressOf(`${this.#etcd}-client-external`, signal);
    return { name: this.#etcd, endpoints: [`https://${host}:2379`], tls };
  }
}

/** Whether one of the seeds has more than half of the voters. */
function isUneven(members: readonly Member[]): boolean {
  const voters = members.filter(({ learner }) => !learner);
  const first = voters.filter(({ name }) => name.startsWith("seed-a-")).length;
  return first * 2 !== voters.length;
}
