import type { Account } from "../../workload/account.ts";
import { Caller } from "../../workload/caller.ts";
import type { ApiServer } from "../../workload/http.ts";
import { Ledger } from "../../workload/ledger.ts";
import { Reader } from "../../workload/reader.ts";
import { configMaps } from "../../workload/resources.ts";
import { Rhythm } from "../../workload/rhythm.ts";
import { Writer } from "../../workload/writer.ts";
import type { Findings, Place } from "../../workload/writer.ts";

export interface ProgramOptions {
  /** Value of the label {@link groupLabel} of its objects, and part of their names. */
  readonly group: string;
  readonly namespace: string;
  readonly server: ApiServer;
  readonly account: Account;
  /** Retries not counted. */
  readonly requestsPerSecond: number;
}

export const groupLabel = "group";

/** Objects that are updated for ever. */
const registerCount = 6;
/** Objects that come and go. */
const comingAndGoing = 6;
/** Smaller than the number of objects that are there, so that a list takes several requests. */
const pageSize = 5;
/** Of all calls. */
const shares = { get: 0.3, list: 0.1, create: 0.1, update: 0.2, patch: 0.1, apply: 0.1, delete: 0.1 };

/** A client program: it writes objects of its own, and reads those of another program. */
export class Program {
  readonly group: string;
  readonly ledger = new Ledger();
  readonly findings: Findings = { lost: [], stale: [], regressions: [] };
  /** Beats left out because every object was waiting for an answer. */
  skipped = 0;
  readonly #options: ProgramOptions;
  readonly #caller: Caller;
  readonly #place: Place;
  readonly #registers: readonly Writer[];
  readonly #passing: readonly Writer[];
  #rhythms: readonly Rhythm[] = [];
  /** When each object was written last, counted in writes. */
  readonly #turns = new Map<Writer, number>();
  #turn = 0;

  constructor(options: ProgramOptions) {
    const { group, namespace, server, account } = options;
    this.group = group;
    this.#options = options;
    this.#caller = new Caller(server, account);
    const labels = { [groupLabel]: group };
    this.#place = { resource: configMaps, namespace, address: () => undefined, labels };
    const tools = { caller: this.#caller, ledger: this.ledger, findings: this.findings };
    const writers = (kind: string, count: number) =>
      Array.from(
        { length: count },
        (_, index) => new Writer(`${group}-${kind}-${index}`, this.#place, tools),
      );
    this.#registers = writers("register", registerCount);
    this.#passing = writers("passing", comingAndGoing);
  }

  /** Makes the objects. */
  async prepare(): Promise<void> {
    const begun = [...this.#registers, ...this.#passing.slice(0, comingAndGoing / 2)];
    await Promise.all(begun.map(async (writer) => await writer.create()));
  }

  /** @param read whose objects it reads, perhaps over another protocol and at another API server */
  start(read: Program): void {
    const reader = read.#readBy(this.#caller);
    const selector = `${groupLabel}=${read.group}`;
    let reads = 0;
    const register = () => `${read.group}-register-${reads++ % registerCount}`;
    this.#rhythms = [
      this.#rhythm(shares.get, async () => await reader.get(register())),
      this.#rhythm(shares.list, async () => await reader.list({ pageSize, selector })),
      this.#rhythm(shares.create, () => this.#write(this.#absent, (writer) => writer.create())),
      this.#rhythm(shares.update, () => this.#write(this.#registers, (writer) => writer.update())),
      this.#rhythm(shares.patch, () => this.#write(this.#registers, (writer) => writer.patch())),
      this.#rhythm(shares.apply, () => this.#write(this.#registers, (writer) => writer.apply())),
      this.#rhythm(shares.delete, () => this.#write(this.#present, (writer) => writer.remove())),
    ];
  }

  /** Resolves when no request is under way any more. */
  async stop(): Promise<void> {
    await Promise.all(this.#rhythms.map(async (rhythm) => await rhythm.stop()));
  }

  #readBy(caller: Caller): Reader {
    const writers = [...this.#registers, ...this.#passing];
    return new Reader(this.#place, writers, { caller, ledger: this.ledger, findings: this.findings });
  }

  get #absent(): Writer[] {
    return this.#passing.filter((writer) => !writer.exists);
  }

  get #present(): Writer[] {
    return this.#passing.filter((writer) => writer.exists);
  }

  #rhythm(share: number, beat: () => Promise<void> | undefined): Rhythm {
    return new Rhythm(this.#options.requestsPerSecond * share, beat);
  }

  #write(writers: readonly Writer[], run: (writer: Writer) => Promise<void>): Promise<void> | undefined {
    // The one that has rested longest: all are written, and each is as old as can be when it is.
    const [writer] = writers
      .filter(({ isIdle }) => isIdle)
      .toSorted((one, other) => (this.#turns.get(one) ?? 0) - (this.#turns.get(other) ?? 0));
    if (writer === undefined) {
      this.skipped += 1;
      return undefined;
    }
    this.#turn += 1;
    this.#turns.set(writer, this.#turn);
    return run(writer);
  }
}
