import { SupersededError } from "../../etcd/errors.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { CLAIM, holderOf, missingEpoch, raising } from "../claim.ts";
import type { Claim } from "../claim.ts";
import { ClaimedError } from "../types.ts";

const REACHABLE_MS = 5_000;
/** So long a seed is waited for when the other has confirmed the claim. */
const OTHER_SEED_MS = 1_000;

/** The claim of a control plane that no object above the seeds stands for: on its namespace, in each seed that has it. */
export class NamespaceClaims {
  readonly #namespace: string;
  readonly #claim: Claim;

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
    if (namespace !== undefined && holder !== this.#claim.move) throw this.#refused(seed, holder);
    return namespace;
  }

  /** @throws ClaimedError, SupersededError */
  async take(seed: ApiServer, signal: AbortSignal): Promise<void> {
    const { move, epoch } = this.#claim;
    const change = (namespace: KubeObject) => {
      const holder = holderOf(namespace);
      if (holder !== undefined && holder !== move) throw this.#refused(seed, holder);
      const annotations = { ...missingEpoch(namespace, epoch, this.#in(seed)), [CLAIM]: move };
      return holder === move && Object.keys(annotations).length === 1
        ? undefined
        : { metadata: { annotations } };
    };
    await converge(seed, this.#path, change, signal);
  }

  /** Gives the claim back where the move has it. @throws SupersededError */
  async giveBack(seed: ApiServer, signal: AbortSignal): Promise<void> {
    if ((await this.find(seed, signal)) === undefined) return;
    const { move, epoch } = this.#claim;
    const change = (namespace: KubeObject) => {
      if (holderOf(namespace) !== move) return undefined;
      return {
        metadata: { annotations: { ...missingEpoch(namespace, epoch, this.#in(seed)), [CLAIM]: null } },
      };
    };
    await converge(seed, this.#path, change, signal);
  }

  /**
   * Raises the epoch in the seeds. One seed's word is enough, so that a move can go on while the other is cut off or has
   * been cleared.
   * @throws ClaimedError, SupersededError
   */
  async require(seeds: readonly ApiServer[], signal: AbortSignal): Promise<void> {
    const { move } = this.#claim;
    const late = new AbortController();
    const limit = AbortSignal.any([signal, late.signal, AbortSignal.timeout(REACHABLE_MS)]);
    let timer: NodeJS.Timeout | undefined;
    const asked = await Promise.allSettled(
      seeds.map(async (seed) => {
        const holder = await this.#raise(seed, limit);
        if (holder === move) timer ??= setTimeout(() => late.abort(), OTHER_SEED_MS);
        return holder;
      }),
    );
    clearTimeout(timer);
    const holders = asked.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    const errors = asked.flatMap((answer) => (answer.status === "rejected" ? [answer.reason as Error] : []));
    const superseded = errors.find((error) => error instanceof SupersededError);
    if (superseded) throw superseded;
    const other = holders.find((holder) => holder !== undefined && holder !== move);
    if (other === undefined && holders.includes(move)) return;
    signal.throwIfAborted();
    if (other === undefined && errors[0]) throw errors[0];
    throw this.#refused(seeds[0]!, other);
  }

  /** The same right before a change in one seed, whose word counts most: the other is asked where it has none. */
  async requireAt(seed: ApiServer, other: ApiServer, signal: AbortSignal): Promise<void> {
    const holder = await this.#raise(seed, signal);
    if (holder === this.#claim.move) return;
    if (holder !== undefined) throw this.#refused(seed, holder);
    await this.require([other], signal);
  }

  #refused(seed: ApiServer, holder = "nobody"): ClaimedError {
    return new ClaimedError(this.#in(seed), holder);
  }

  /** @returns the move that holds the namespace, if any; another's is left as it is. @throws SupersededError */
  async #raise(seed: ApiServer, signal: AbortSignal): Promise<string | undefined> {
    const { move, epoch } = this.#claim;
    if ((await this.find(seed, signal)) === undefined) return undefined;
    const change = (namespace: KubeObject) =>
      holderOf(namespace) === move ? raising(namespace, epoch, this.#in(seed)) : undefined;
    return holderOf(await converge(seed, this.#path, change, signal));
  }

  get #path(): string {
    return `/api/v1/namespaces/${this.#namespace}`;
  }

  #in(seed: ApiServer): string {
    return `namespace ${this.#namespace} at ${seed.name}`;
  }
}
