import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { findProgram } from "../../../testbed/programs/find.ts";

/** A request that did not succeed although the client has tried as often as client-go does. Times: ms since the epoch. */
export interface Failure {
  readonly client: string;
  readonly verb: string;
  readonly resource: string;
  /** 0 where there was no answer. */
  readonly status: number;
  readonly reason: string;
  readonly message: string;
  readonly beganAt: number;
  readonly endedAt: number;
  /** The moment that its end is nearest to, and the distance from it. */
  readonly nearest?: string;
  readonly offsetMs?: number;
}

/** What one kind of client has done in one chapter. */
export interface Counts {
  /** Each with all its repetitions. */
  readonly requests: number;
  /** As they were on the wire: by verb, then by status. */
  readonly attempts: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Updates that were answered 409, by resource. */
  readonly conflicts: Readonly<Record<string, number>>;
  /** The longest time between two successes, by verb. */
  readonly gaps: Readonly<Record<string, { readonly ms: number; readonly at: number }>>;
  readonly failures: readonly Failure[];
}

export interface Chapter {
  readonly name: string;
  readonly beganAt: number;
  readonly clients: Readonly<Record<string, Counts>>;
}

/** A list of an informer after its first. */
export interface Relist {
  readonly at: number;
  readonly how: string;
  /** The resourceVersion that it asked for. */
  readonly from: string;
  /** How the watch before it ended, or was refused. */
  readonly cause: string;
}

/** A state that was told after a later one: `count` is what writers only ever count up. */
export interface OlderAgain {
  readonly name: string;
  readonly at: number;
  readonly count: number;
  readonly after: number;
  readonly version: number;
  readonly afterVersion: number;
}

/** What an informer has seen, compared with what was acknowledged to writers. */
export interface Verdict {
  readonly informer: string;
  readonly resource: string;
  readonly acknowledged: number;
  readonly seenExactly: number;
  readonly seenLater: number;
  readonly missed: readonly string[];
  readonly betweenLists: number;
  /** Deletions of objects that nobody has deleted. */
  readonly falseEnds: readonly string[];
  readonly wentBack: readonly string[];
  /** States told again after later ones, under higher resourceVersions. */
  readonly olderAgain: readonly OlderAgain[];
  /** Objects told to be there after they were told to be deleted, to be deleted once more. */
  readonly revived: number;
  readonly storeDiffers: readonly string[];
  readonly lists: number;
  readonly watches: number;
  readonly relists: readonly Relist[];
}

/** What the program prints at its end: testbed/programs/clients/finish.go. */
export interface ClientsReport {
  readonly chapters: readonly Chapter[];
  readonly informers: readonly Verdict[];
  readonly provider: {
    readonly endpoints: readonly { readonly at: number; readonly urls: readonly string[] }[];
    readonly informers: readonly Verdict[];
    readonly missed: readonly string[];
  };
  readonly leases: readonly {
    readonly name: string;
    readonly terms: number;
    readonly lost: readonly { readonly at: number; readonly of: string }[];
    readonly overlaps: readonly number[];
  }[];
  readonly lost: readonly string[];
  readonly behind: readonly string[];
  readonly reconciled: Readonly<Record<string, number>>;
  readonly requeued: Readonly<Record<string, number>>;
  readonly acknowledged: Readonly<Record<string, number>>;
}

export interface ClientsOptions {
  readonly kubeconfig: string;
  readonly cluster: string;
  readonly path: string;
  /** Id of the provider's cluster. */
  readonly provider: string;
  /** Folder for kubectl's caches. */
  readonly scratch: string;
  /** What client-go logs. */
  readonly logFile: string;
}

/** The running program of real clients. */
export class Clients {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;

  private constructor(child: ChildProcessWithoutNullStreams) {
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Starts it, and waits until every informer has synced and every client has been served. */
  static async start(options: ClientsOptions): Promise<Clients> {
    const [program, kubectl] = await Promise.all([findProgram("clients"), findProgram("kubectl")]);
    const child = spawn(program, [
      `--kubeconfig=${options.kubeconfig}`,
      `--cluster=${options.cluster}`,
      `--path=${options.path}`,
      `--provider=${options.provider}`,
      `--scratch=${options.scratch}`,
      `--kubectl=${kubectl}`,
    ]);
    child.stderr.pipe(createWriteStream(options.logFile));
    const clients = new Clients(child);
    await clients.#answer();
    return clients;
  }

  /** Counts from now on are kept under this name. */
  async begin(chapter: string): Promise<void> {
    await this.#tell({ chapter });
  }

  /** Failures are told relative to the nearest moment. */
  async mark(name: string, at: number): Promise<void> {
    await this.#tell({ moment: { name, at } });
  }

  /** Waits until every client that asks all the time has been served once more. */
  async untilServed(): Promise<void> {
    await this.#tell({ served: true });
  }

  /** Ends all clients, after those that only look have caught up. */
  async end(): Promise<ClientsReport> {
    return (await this.#tell({ end: true })) as ClientsReport;
  }

  /** For when a test ends early. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async #tell(command: object): Promise<unknown> {
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
    return await this.#answer();
  }

  async #answer(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error("the clients have ended; see their log");
    return JSON.parse(value) as unknown;
  }
}
