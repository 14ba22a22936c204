import { EtcdCluster } from "../../../etcd/membership/cluster.ts";
import { listMembers } from "../../../etcd/membership/converge.ts";
import type { Member } from "../../../etcd/membership/types.ts";
import { credentialsOf } from "../../../hosting/statefulset/members.ts";
import { SeedNamespace } from "../../../hosting/statefulset/seed.ts";
import { etcdNames, seedNamespace } from "../../../testbed/control-plane/names.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";

/** Longer without a leader is a cluster without quorum. A leader's move takes a fraction of it. */
const LEADERLESS_MS = 12_000;
const LOOK_MS = 3_000;
/** Two calls, on a machine with many servers. */
const EVEN_MS = 5_000;
const LOOK_EVERY_MS = 250;

const NO_QUORUM = "no quorum";

/** Without the times in which nobody led, which a cut network explains. */
export function rulesBroken(problems: readonly string[]): string[] {
  return problems.filter((problem) => !problem.includes(NO_QUORUM));
}

export interface QuorumWatch extends AsyncDisposable {
  /** Ends the watch. @returns what was seen that must not be. */
  problems(): Promise<readonly string[]>;
}

/**
 * Asks each etcd for its members again and again, linearizably, which only a quorum answers, and judges each list: at
 * most one learner, and voters that are even between the seeds for a moment only. Where no list comes, a member says
 * whether somebody leads: on a busy machine an answer may be late while nothing is wrong.
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
  const seeds = (["seed-a", "seed-b"] as const).map((seed) => new Door(bed, etcd, seed));
  let leaderlessSince: number | undefined;
  let unevenAt = performance.now();
  while (!signal.aborted) {
    const list = await firstOf(seeds.map(async (seed) => await seed.list()));
    const now = performance.now();
    if (list !== undefined) {
      leaderlessSince = undefined;
      if (list.filter(({ learner }) => learner).length > 1) problems.push(`${etcd}: two learners`);
      if (isUneven(list)) unevenAt = now;
      else if (now - unevenAt > EVEN_MS)
        problems.push(`${etcd}: neither seed could go on alone for ${EVEN_MS} ms`);
    } else if (await firstOf(seeds.map(async (seed) => await seed.isLeaderless()))) {
      leaderlessSince ??= now;
      if (now - leaderlessSince > LEADERLESS_MS) {
        problems.push(`${etcd}: ${NO_QUORUM} for ${Math.round(now - leaderlessSince)} ms`);
        leaderlessSince = now;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  await Promise.all(seeds.map(async (seed) => await seed.close()));
}

/** @returns undefined when none succeeds. */
async function firstOf<T>(answers: readonly Promise<T>[]): Promise<T | undefined> {
  return await Promise.any(answers).catch(() => undefined);
}

/** Where a seed's members of an etcd are reached; looked for again when they do not answer, since they come and go. */
class Door {
  readonly #bed: ControlPlaneBed;
  readonly #etcd: string;
  readonly #seed: SeedName;
  #found: Promise<EtcdCluster> | undefined;

  constructor(bed: ControlPlaneBed, etcd: string, seed: SeedName) {
    this.#bed = bed;
    this.#etcd = etcd;
    this.#seed = seed;
  }

  /** The members, as a quorum knows them. */
  async list(): Promise<readonly Member[]> {
    return await this.#ask(async (cluster, signal) => (await listMembers(cluster, signal)).members);
  }

  /** By a member's own word, which needs no quorum. */
  async isLeaderless(): Promise<boolean> {
    return await this.#ask(async (cluster, signal) => {
      const { answered } = await cluster.locate(signal);
      if (answered.length === 0) throw new Error(`${cluster.name}: no answer`);
      return answered.every(({ status }) => status.leader === undefined);
    });
  }

  async close(): Promise<void> {
    const found = this.#found;
    this.#found = undefined;
    (await found?.catch(() => undefined))?.close();
  }

  async #ask<T>(question: (cluster: EtcdCluster, signal: AbortSignal) => Promise<T>): Promise<T> {
    const signal = AbortSignal.timeout(LOOK_MS);
    const found = (this.#found ??= this.#find(signal));
    try {
      return await question(await found, signal);
    } catch (error) {
      if (this.#found === found) await this.close();
      throw error;
    }
  }

  async #find(signal: AbortSignal): Promise<EtcdCluster> {
    const namespace = new SeedNamespace(this.#bed.testbed.seeds[this.#seed].api, seedNamespace);
    const tls = await credentialsOf(namespace, this.#etcd, signal);
    const host = await namespace.ingressOf(`${this.#etcd}-client-external`, signal);
    return new EtcdCluster({ name: this.#etcd, endpoints: [`https://${host}:2379`], tls });
  }
}

/** Whether one of the seeds has more than half of the voters. */
function isUneven(members: readonly Member[]): boolean {
  const voters = members.filter(({ learner }) => !learner);
  const first = voters.filter(({ name }) => name.startsWith("seed-a-")).length;
  return first * 2 !== voters.length;
}
