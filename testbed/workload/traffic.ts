import type { Account } from "./account.ts";
import { Caller } from "./caller.ts";
import type { FrontProxy } from "./front-proxy.ts";
import { Ledger } from "./ledger.ts";
import { Reader } from "./reader.ts";
import type { Resource } from "./resources.ts";
import { Rhythm } from "./rhythm.ts";
import { Watcher } from "./watcher.ts";
import { Writer } from "./writer.ts";
import type { Findings, Place } from "./writer.ts";

export interface TrafficOptions {
  readonly frontProxy: FrontProxy;
  readonly account: Account;
  readonly resource: Resource;
  readonly namespace: string;
  /** Path and id of the workspace's logical cluster. */
  readonly clusters: readonly string[];
  readonly requestsPerSecond: number;
  readonly shares: Shares;
}

/** Of all requests, 1 together. */
export type Shares = Readonly<Record<"get" | "list" | "create" | "update" | "delete", number>>;

/**
 * Objects that are updated for ever. So many that the rhythm of writing does
 * not end when those under way wait for a second before they try again.
 */
const registerCount = 32;
/** Objects that come and go. */
const comingAndGoing = 24;

/** All clients of one resource: writers, readers and watchers. */
export class Traffic {
  readonly resource: Resource;
  readonly namespace: string;
  readonly ledger = new Ledger();
  readonly findings: Findings = { lost: [], stale: [], regressions: [] };
  readonly watchers: readonly Watcher[];
  /** Beats left out because every object was waiting for an answer. */
  skipped = 0;
  readonly #registers: readonly Writer[];
  readonly #passing: readonly Writer[];
  readonly #reader: Reader;
  readonly #requestsPerSecond: number;
  readonly #shares: Shares;
  #rhythms: readonly Rhythm[] = [];
  #turn = 0;

  constructor(options: TrafficOptions) {
    const { frontProxy, resource, namespace, clusters } = options;
    this.resource = resource;
    this.namespace = namespace;
    this.#requestsPerSecond = options.requestsPerSecond;
    this.#shares = options.shares;
    let call = 0;
    const place: Place = {
      resource,
      namespace,
      address: () => clusters[call++ % clusters.length],
    };
    const caller = new Caller(frontProxy, options.account);
    const tools = { caller, ledger: this.ledger, findings: this.findings };
    const writers = (kind: string, count: number) =>
      Array.from({ length: count }, (_, index) => new Writer(`${kind}-${index}`, place, tools));
    this.#registers = writers("register", registerCount);
    this.#passing = writers("passing", comingAndGoing);
    this.#reader = new Reader(place, [...this.#registers, ...this.#passing], tools);
    const watched = { resource, namespace, excuse: "relist" } as const;
    this.watchers = clusters.map((cluster) => new Watcher(frontProxy, { ...watched, cluster }));
  }

  /** Starts the watchers, makes the objects, then begins. */
  async start(): Promise<void> {
    await Promise.all(this.watchers.map(async (watcher) => await watcher.start()));
    const begun = [...this.#registers, ...this.#passing.slice(0, comingAndGoing / 2)];
    await Promise.all(begun.map(async (writer) => await writer.create()));
    const shares = this.#shares;
    this.#rhythms = [
      this.#rhythm(shares.update, () => this.#write(this.#registers, (writer) => writer.update())),
      this.#rhythm(shares.create, () => this.#write(this.#absent, (writer) => writer.create())),
      this.#rhythm(shares.delete, () => this.#write(this.#present, (writer) => writer.remove())),
      this.#rhythm(shares.get, async () => await this.#reader.get(`register-${this.#next(registerCount)}`)),
      this.#rhythm(shares.list, async () => await this.#reader.list()),
    ];
  }

  /** Ends all requests but the watches; resolves when none is under way. */
  async stopRequests(): Promise<void> {
    await Promise.all(this.#rhythms.map(async (rhythm) => await rhythm.stop()));
  }

  async stopWatches(): Promise<void> {
    await Promise.all(this.watchers.map(async (watcher) => await watcher.stop()));
  }

  get #absent(): Writer[] {
    return this.#passing.filter((writer) => !writer.exists);
  }

  get #present(): Writer[] {
    return this.#passing.filter((writer) => writer.exists);
  }

  #rhythm(share: number, beat: () => Promise<void> | undefined): Rhythm {
    return new Rhythm(this.#requestsPerSecond * share, beat);
  }

  #write(writers: readonly Writer[], run: (writer: Writer) => Promise<void>): Promise<void> | undefined {
    const idle = writers.filter((writer) => writer.isIdle);
    const writer = idle[this.#next(idle.length)];
    if (writer === undefined) this.skipped += 1;
    return writer === undefined ? undefined : run(writer);
  }

  /** In turns rather than at random: each object is as old as can be when it is written next. */
  #next(count: number): number {
    this.#turn += 1;
    return count === 0 ? 0 : this.#turn % count;
  }
}
