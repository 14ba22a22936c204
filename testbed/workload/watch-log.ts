import type { Ledger, Write } from "./ledger.ts";

/** What one watcher has seen, to be compared with what was written. Pure. */

/** An object as an event or a list shows it. */
export interface Seen {
  readonly key: string;
  /** Number of the put that its content carries. */
  readonly number: number;
  readonly resourceVersion: string;
}

export interface Regression {
  readonly key: string;
  readonly before: string;
  readonly after: string;
}

/**
 * What excuses a watcher for a write that it did not see although it saw a later one of the same object:
 * - `break`: its stream was broken in between;
 * - `relist`: it had to list again in between. A stream that is resumed at a resourceVersion leaves nothing out.
 */
export type Excuse = "break" | "relist";

export interface Comparison {
  /** Acknowledged writes whose effect the watcher never learnt of. */
  readonly missed: readonly Write[];
  /**
   * Acknowledged writes that the watcher did not see because its stream was
   * broken and a later write of the same object was there when it resumed; for
   * a watcher that only a list excuses: when it had listed again.
   */
  readonly skipped: number;
}

/** What began a stream in place of the one before. */
interface List {
  readonly stream: number;
  readonly keys: ReadonlySet<string>;
}

interface Sighting {
  readonly kind: "put" | "delete";
  /** Of the put seen, or of the put that the deleted object carried. */
  readonly number: number;
  /** Index of the stream it came by. */
  readonly stream: number;
}

/**
 * The events of a watcher that was there before the first write. Its streams
 * are numbered: a watch, what it became when it was resumed, and so on.
 */
export class WatchLog {
  readonly regressions: Regression[] = [];
  readonly #excuse: Excuse;
  readonly #sightings = new Map<string, Sighting[]>();
  readonly #newest = new Map<string, bigint>();
  readonly #openedAt: number[] = [];
  readonly #lists: List[] = [];
  events = 0;
  relists = 0;

  constructor(excuse: Excuse = "break") {
    this.#excuse = excuse;
  }

  /** A stream begins. The first one needs it too. */
  opened(at: number): void {
    this.#openedAt.push(at);
  }

  get breaks(): number {
    return Math.max(0, this.#openedAt.length - 1);
  }

  put(seen: Seen): void {
    this.events += 1;
    this.#see("put", seen);
  }

  deleted(seen: Seen): void {
    this.events += 1;
    this.#see("delete", seen);
  }

  /** A list in place of a stream that the server would not resume: what is not in it was deleted. */
  relisted(objects: readonly Seen[]): void {
    this.relists += 1;
    this.#lists.push({ stream: this.#stream, keys: new Set(objects.map(({ key }) => key)) });
    for (const object of objects) this.#see("put", object);
  }

  /** Keys whose last acknowledged write the watcher has not seen, nor a later one. */
  behind(ledger: Ledger): string[] {
    return ledger.keys.filter((key) => {
      const last = ledger.lastAcknowledged(key);
      return last > 0 && !this.#numbers(ledger, key).some(({ number }) => number >= last);
    });
  }

  compare(ledger: Ledger): Comparison {
    const missed: Write[] = [];
    let skipped = 0;
    for (const key of ledger.keys) {
      const seen = this.#numbers(ledger, key);
      const numbers = new Set(seen.map(({ number }) => number));
      for (const write of ledger.acknowledged(key)) {
        if (numbers.has(write.number)) continue;
        if (this.#isExcused(write, seen)) skipped += 1;
        else missed.push(write);
      }
    }
    return { missed, skipped };
  }

  /** A hole is excused when it lies between two streams: the write was sent before the stream that shows a later one. */
  #isExcused(write: Write, seen: readonly Sighting[]): boolean {
    const after = seen.find(({ number }) => number > write.number);
    if (after === undefined) return false;
    const before = seen.find(({ number }) => number < write.number && number === nearest(write, seen));
    const streamBefore = before?.stream ?? 0;
    if (this.#excuse === "break") {
      return streamBefore < after.stream && write.at < (this.#openedAt[after.stream] ?? 0);
    }
    return this.#lists.some(
      ({ stream }) =>
        streamBefore < stream && stream <= after.stream && write.at < (this.#openedAt[stream] ?? 0),
    );
  }

  /** The sightings of a key as numbers of writes, deletes included, in the order in which they were seen. */
  #numbers(ledger: Ledger, key: string): Sighting[] {
    const told = (this.#sightings.get(key) ?? []).flatMap((sighting) => {
      if (sighting.kind === "put") return [sighting];
      const number = ledger.deleteAfter(key, sighting.number);
      return number === undefined ? [] : [{ ...sighting, number }];
    });
    const absences = this.#absences(ledger, key);
    return absences.length === 0
      ? told
      : [...absences, ...told].toSorted((one, other) => one.stream - other.stream);
  }

  /** What is not in a list has been deleted. */
  #absences(ledger: Ledger, key: string): Sighting[] {
    return this.#lists.flatMap(({ stream, keys }) => {
      if (keys.has(key)) return [];
      const number = ledger.lastDeleteBefore(key, this.#openedAt[stream] ?? 0);
      return number === undefined ? [] : [{ kind: "delete" as const, number, stream }];
    });
  }

  #see(kind: Sighting["kind"], { key, number, resourceVersion }: Seen): void {
    const sightings = this.#sightings.get(key) ?? [];
    this.#sightings.set(key, sightings);
    sightings.push({ kind, number, stream: this.#stream });
    const [version, newest] = [BigInt(resourceVersion), this.#newest.get(key)];
    if (newest !== undefined && version < newest) {
      this.regressions.push({ key, before: String(newest), after: resourceVersion });
    } else {
      this.#newest.set(key, version);
    }
  }

  get #stream(): number {
    return Math.max(0, this.#openedAt.length - 1);
  }
}

/** The greatest number seen below that of the write. */
function nearest(write: Write, seen: readonly Sighting[]): number {
  return Math.max(...seen.map(({ number }) => number).filter((number) => number < write.number));
}
