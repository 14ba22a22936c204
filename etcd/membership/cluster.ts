import { MembershipError } from "./errors.ts";
import type { Failure } from "./errors.ts";
import { EtcdMember } from "./member.ts";
import type { CallOptions, MemberOptions } from "./member.ts";
import type { MemberId, MemberStatus } from "./types.ts";

export interface ClusterOptions extends Omit<MemberOptions, "endpoint"> {
  /** Name in messages, e.g. `etcd-main of demo`. */
  readonly name: string;
  /** One URL for each member, voters and learners; order does not matter. */
  readonly endpoints: readonly string[];
}

/** A member that answered, and how it is reached. */
export interface Located {
  readonly member: EtcdMember;
  readonly status: MemberStatus;
}

export interface Unanswered {
  readonly endpoint: string;
  readonly error: unknown;
}

/** A member that does not answer in this time counts as down where all members are asked. */
const STATUS_TIMEOUT_MS = 3_000;
/** A read is tried at the next member after this time. */
const READ_TIMEOUT_MS = 5_000;

const tryNext: ReadonlySet<Failure> = new Set([
  "ambiguous",
  "unreachable",
  "no-leader",
  "refused-by-learner",
  "foreign-cluster",
]);

/** The members of one etcd cluster as far as their endpoints are known. Knows nothing of what they should become. */
export class EtcdCluster {
  readonly name: string;
  readonly #members: readonly EtcdMember[];
  #lastGood: EtcdMember | undefined;

  constructor({ name, endpoints, ...options }: ClusterOptions) {
    if (endpoints.length === 0) throw new Error(`${name}: no endpoints given`);
    this.name = name;
    this.#members = endpoints.map((endpoint) => new EtcdMember({ endpoint, ...options }));
  }

  close(): void {
    for (const member of this.#members) member.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Asks every endpoint at once. */
  async locate(signal?: AbortSignal): Promise<{ answered: Located[]; unanswered: Unanswered[] }> {
    const answered: Located[] = [];
    const unanswered: Unanswered[] = [];
    await Promise.all(
      this.#members.map(async (member) => {
        try {
          const status = await member.status({ signal, timeoutMs: STATUS_TIMEOUT_MS });
          answered.push({ member, status });
        } catch (error) {
          unanswered.push({ endpoint: member.endpoint, error });
        }
      }),
    );
    signal?.throwIfAborted();
    return { answered, unanswered };
  }

  /**
   * The member that leads, by its own word; does not wait for members that are slow to answer.
   * @throws MembershipError `no-leader` when none that answers leads.
   */
  async leader(signal?: AbortSignal): Promise<Located> {
    const asked = this.#members.map(async (member) => {
      const status = await member.status({ signal, timeoutMs: STATUS_TIMEOUT_MS });
      if (status.leader === status.id) return { member, status };
      throw new MembershipError(member.endpoint, "Status", "not-leader", `${status.id} does not lead`);
    });
    try {
      return await Promise.any(asked);
    } catch (error) {
      signal?.throwIfAborted();
      const errors = error instanceof AggregateError ? (error.errors as unknown[]) : [error];
      const details = `no leader among those that answer: ${errors.map(String).join("; ")}`;
      throw new MembershipError(this.name, "Status", "no-leader", details, { cause: error });
    }
  }

  /** @throws MembershipError `unreachable` when no endpoint that answers is the member's. */
  async find(id: MemberId, signal?: AbortSignal): Promise<Located> {
    const { answered, unanswered } = await this.locate(signal);
    const found = answered.find(({ status }) => status.id === id);
    if (found) return found;
    const silent = unanswered.map(({ endpoint }) => endpoint).join(", ") || "none";
    const details = `member ${id} does not answer at any known endpoint (silent: ${silent})`;
    throw new MembershipError(this.name, "Status", "unreachable", details);
  }

  /** Runs a read at one member after the other until one answers, the last that did first. */
  async read<T>(
    run: (member: EtcdMember, options: CallOptions) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const first = this.#lastGood;
    const order = first ? [first, ...this.#members.filter((member) => member !== first)] : this.#members;
    let failure: unknown;
    for (const member of order) {
      try {
        const result = await run(member, { signal, timeoutMs: READ_TIMEOUT_MS });
        this.#lastGood = member;
        return result;
      } catch (error) {
        if (!(error instanceof MembershipError) || !tryNext.has(error.failure)) throw error;
        failure = error;
      }
    }
    throw failure;
  }
}
