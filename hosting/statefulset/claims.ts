import { SupersededError } from "../../etcd/errors.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { CLAIM, holderOf, missingEpoch, noting, raising } from "../claim.ts";
import type { Claim } from "../claim.ts";
import { ClaimedError } from "../types.ts";

const REACHABLE_MS = 5_000;
/** So long a seed is waited for when the other has confirmed the claim. */
const OTHER_SEED_MS = 1_000;
/** In errors; no move has this for its id. */
const NOBODY_HOLDS = "nobody";

/** The claim of a control plane that no object above the seeds stands for: on its namespace, in each seed that has it. */
export class NamespaceClaims {
  readonly #namespace: string;
  readonly #claim: Claim;
  #isRaised = false;

  constructor(namespace: string, claim: Claim) {
    this.#namespace = namespace;
    this.#claim = claim;
  }

  async find(seed: ApiServer, signal: AbortSignal): Promise<KubeObject | undefined> {
    return await seed.find<KubeObject>({ path: this.#path, signal });
  }

  /** @throws ClaimedError for a namespace that the move does not hold */
  async findOwn(seed: ApiServer, signal: AbortSignal): Promise<KubeObject | undefined> {
    const namespace = await this.find(seed, signal);
    const holder = holderOf(namespace);
    if (namespace !== undefined && holder !== this.#claim.move) throw this.#refused(holder, seed);
    return namespace;
  }

  /** @throws ClaimedError, SupersededError */
  async take(seed: ApiServer, signal: AbortSignal): Promise<void> {
    const { move, epoch } = this.#claim;
    const change = (namespace: KubeObject) => {
      const holder = holderOf(namespace);
      if (holder !== undefined && holder !== move) throw this.#refused(holder, seed);
      const raised = missingEpoch(namespace, epoch, this.#in(seed));
      return noting({ ...raised, ...(holder !== move && { [CLAIM]: move }) });
    };
    await converge(seed, this.#path, change, signal);
  }

  /**
   * Gives the claim back where the move has it.
   * @param leaveEpoch leaves the epoch also where nobody has the claim, so that an attempt of this move which wakes up
   *   after its end does not take it.
   * @throws SupersededError
   */
  async giveBack(seed: ApiServer, leaveEpoch: boolean, signal: AbortSignal): Promise<void> {
    const { move, epoch } = this.#claim;
    if ((await this.find(seed, signal)) === undefined) return;
    const change = (namespace: KubeObject) => {
      const holder = holderOf(namespace);
      if (holder === undefined && leaveEpoch) return raising(namespace, epoch, this.#in(seed));
      if (holder !== move) return undefined;
      return {
        metadata: { annotations: { ...missingEpoch(namespace, epoch, this.#in(seed)), [CLAIM]: null } },
      };
    };
    await converge(seed, this.#path, change, signal);
  }

  /**
   * Raises the epoch in the seeds. One seed's word is enough, so that a move can go on while the other is cut off or has
   * been cleared; the first time the other is waited for all the same.
   * @throws ClaimedError, SupersededError
   */
  async require(seeds: readonly ApiServer[], signal: AbortSignal): Promise<void> {
    const { move } = this.#claim;
    const late = new AbortController();
    const limit = AbortSignal.any([signal, late.signal, AbortSignal.timeout(REACHABLE_MS)]);
    const graceMs = this.#isRaised ? OTHER_SEED_MS : REACHABLE_MS;
    let timer: NodeJS.Timeout | undefined;
    const ask = async (seed: ApiServer) => {
      try {
        const holder = await this.#raise(seed, limit);
        if (holder === move) timer ??= setTimeout(() => late.abort(), graceMs);
        return holder;
      } catch (error) {
        if (error instanceof SupersededError) throw error;
        signal.throwIfAborted();
        if (limit.aborted) return new DOMException(`${seed.name} does not answer`, "TimeoutError");
        return error as Error;
      }
    };
    const answers = await Promise.all(seeds.map(ask));
    clearTimeout(timer);
    this.#isRaised = answers.includes(move);
    if (this.#isRaised) return;
    // The first that has the namespace, or may have it, decides.
    const first = answers.find((answer) => answer !== undefined);
    throw first instanceof Error ? first : this.#refused(first);
  }

  /** The same right before a change in one seed, whose word counts: the other is asked where the namespace is not there. */
  async requireAt(seed: ApiServer, other: ApiServer, signal: AbortSignal): Promise<void> {
    const holder = await this.#raise(seed, signal);
    if (holder === this.#claim.move) return;
    if (holder !== undefined) throw this.#refused(holder, seed);
    await this.require([other], signal);
  }

  #refused(holder = NOBODY_HOLDS, seed?: ApiServer): ClaimedError {
    const what = seed ? this.#in(seed) : `namespace ${this.#namespace}`;
    return new ClaimedError(what, holder);
  }

  /**
   * @returns the move that holds the namespace, or that nobody does; undefined where there is none. Another's is left as
   *   it is. @throws SupersededError
   */
  async #raise(seed: ApiServer, signal: AbortSignal): Promise<string | undefined> {
    const { move, epoch } = this.#claim;
    const change = (namespace: KubeObject) =>
      holderOf(namespace) === move ? raising(namespace, epoch, this.#in(seed)) : undefined;
    const found = await this.find(seed, signal);
    if (found === undefined) return undefined;
    const raised = change(found) === undefined ? found : await converge(seed, this.#path, change, signal);
    return holderOf(raised) ?? NOBODY_HOLDS;
  }

  get #path(): string {
    return `/api/v1/namespaces/${this.#namespace}`;
  }

  #in(seed: ApiServer): string {
    return `namespace ${this.#namespace} at ${seed.name}`;
  }
}
