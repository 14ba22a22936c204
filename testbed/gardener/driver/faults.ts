/**
 * What goes wrong with an operation: `error-once` is tried again and succeeds, `failed` is given up, `stuck` never
 * ends.
 */
export type Fault = "error-once" | "failed" | "stuck";

/** Faults to come and what was done, by `<seed or garden>/<resource>/<name>/<operation>`. */
export class DriverState {
  /** The control plane's namespace in both seeds. */
  readonly namespace: string;
  readonly #faults = new Map<string, Fault>();
  readonly #stuck = new Map<string, () => void>();
  /** Every operation that a controller has finished, in order. */
  readonly done: string[] = [];
  /** What a controller has deleted outside Kubernetes: nothing in a move. */
  readonly destroyed: string[] = [];
  /** Controllers of which pods ran at both seeds at one time: none in a move. */
  readonly overlaps: string[] = [];
  /** Migrations of Gardener's own kind that a gardenlet would have begun: none in a move. */
  readonly ordinaryMigrations: string[] = [];
  /** Pods that do not become ready. */
  readonly unready = new Set<string>();
  /** Controllers that die without giving back their lease. */
  readonly keepLease = new Set<string>();
  /** Pods that run now, by seed. */
  readonly running = new Map<string, Set<string>>();

  constructor(namespace: string) {
    this.namespace = namespace;
  }

  inject(key: string, fault: Fault): void {
    this.#faults.set(key, fault);
  }

  /** Ends a fault; an operation that is stuck by it goes on. */
  heal(key: string): void {
    this.#faults.delete(key);
    this.#stuck.get(key)?.();
    this.#stuck.delete(key);
  }

  /** The fault of this attempt, which waits here while it is stuck; one that comes once is used up by it. */
  async pass(key: string): Promise<"error-once" | "failed" | undefined> {
    const fault = this.#faults.get(key);
    if (fault === "error-once") this.#faults.delete(key);
    if (fault !== "stuck") return fault;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#stuck.set(key, resolve);
    await promise;
    return undefined;
  }
}
