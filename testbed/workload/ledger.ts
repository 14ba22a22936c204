/** What clients have written and what they were told, per key. Pure. */

/** A write as its sender knows it. `number` counts the writes of a key from 1 on. */
export interface Write {
  readonly key: string;
  readonly number: number;
  readonly kind: "put" | "delete";
  /** When it was first sent, in ms since the epoch. */
  readonly at: number;
}

/**
 * - `open`: no answer, or one that leaves open whether it took effect.
 * - `acknowledged`: the server said yes, or the effect was read later.
 * - `refused`: the server said no.
 */
type State = "open" | "acknowledged" | "refused";

interface Entry extends Write {
  state: State;
}

/** What a key held when it was read: the number of the put, or null for an absent object. */
export type Observed = number | null;

export interface LostWrite {
  readonly key: string;
  /** The last acknowledged write. */
  readonly expected: string;
  readonly found: string;
}

/**
 * The writes of clients that have one writer for each key, and never more than
 * one write of a key under way. A write may only take effect if nothing has
 * changed since the one before it (optimistic locking), so an open write is out
 * of the game as soon as a later one is acknowledged.
 */
export class Ledger {
  readonly #entries = new Map<string, Entry[]>();

  get keys(): string[] {
    return [...this.#entries.keys()];
  }

  /** Writes down a write before it is sent. */
  begin(key: string, kind: Write["kind"], at: number): Write {
    const entries = this.#entriesOf(key);
    const entry: Entry = { key, kind, at, number: entries.length + 1, state: "open" };
    entries.push(entry);
    return entry;
  }

  acknowledge({ key, number }: Write): void {
    this.#entry(key, number).state = "acknowledged";
  }

  /** Only for answers that are certain to have changed nothing. */
  refuse({ key, number }: Write): void {
    this.#entry(key, number).state = "refused";
  }

  /** Acknowledged writes of a key, in order. */
  acknowledged(key: string): readonly Write[] {
    return this.#entriesOf(key).filter(({ state }) => state === "acknowledged");
  }

  /** How many writes of this key may still turn out to have taken effect. */
  openCount(key: string): number {
    return this.#candidates(key).length;
  }

  /** How many writes were acknowledged, over all keys. */
  get acknowledgedCount(): number {
    return this.keys.reduce((sum, key) => sum + this.acknowledged(key).length, 0);
  }

  /** The delete that ended what put number `put` had written: the acknowledged one, or else one that may have. */
  deleteAfter(key: string, put: number): number | undefined {
    const deletes = this.#entriesOf(key).filter(
      ({ kind, number, state }) => kind === "delete" && number > put && state !== "refused",
    );
    const acknowledged = deletes.find(({ state }) => state === "acknowledged");
    return (acknowledged ?? deletes[0])?.number;
  }

  /** The last acknowledged delete of a key that was sent before a point in time. */
  lastDeleteBefore(key: string, time: number): number | undefined {
    return this.acknowledged(key).findLast(({ kind, at }) => kind === "delete" && at < time)?.number;
  }

  /** Number of the last acknowledged write of a key; 0 when there is none. */
  lastAcknowledged(key: string): number {
    return this.#last(key)?.number ?? 0;
  }

  /**
   * Takes a read by the writer itself, with no write under way, as the answer
   * that an open write never got.
   * @returns what is lost, if what was read contradicts the acknowledged writes
   */
  settle(key: string, observed: Observed): LostWrite | undefined {
    const lost = this.judge(key, observed);
    if (lost !== undefined) return lost;
    const entry = this.#candidates(key).find((candidate) => effectOf(candidate) === observed);
    if (entry !== undefined) entry.state = "acknowledged";
    return undefined;
  }

  /** The last acknowledged write, or a later one that nobody answered, must be what is there. */
  judge(key: string, observed: Observed): LostWrite | undefined {
    const last = this.#last(key);
    const allowed = [last === undefined ? null : effectOf(last), ...this.#candidates(key).map(effectOf)];
    if (allowed.includes(observed)) return undefined;
    return { key, expected: describe(last), found: observed === null ? "nothing" : `write ${observed}` };
  }

  /**
   * For readers beside the writer.
   * @param since what {@link lastAcknowledged} was before the read was sent
   * @returns whether the read showed less than that
   */
  isStale(key: string, observed: Observed, since: number): boolean {
    if (observed !== null) return observed < since;
    const deletes = this.#entriesOf(key).filter(
      ({ kind, state }) => kind === "delete" && state !== "refused",
    );
    return since > 0 && deletes.every(({ number }) => number < since);
  }

  /** Open writes after the last acknowledged one. */
  #candidates(key: string): Entry[] {
    const last = this.lastAcknowledged(key);
    return this.#entriesOf(key).filter(({ number, state }) => state === "open" && number > last);
  }

  #last(key: string): Entry | undefined {
    return this.#entriesOf(key).findLast(({ state }) => state === "acknowledged");
  }

  #entry(key: string, number: number): Entry {
    const entry = this.#entriesOf(key)[number - 1];
    if (entry === undefined) throw new Error(`${key} has no write ${number}`);
    return entry;
  }

  #entriesOf(key: string): Entry[] {
    let entries = this.#entries.get(key);
    if (entries === undefined) this.#entries.set(key, (entries = []));
    return entries;
  }
}

function effectOf({ kind, number }: Write): Observed {
  return kind === "delete" ? null : number;
}

function describe(last: Write | undefined): string {
  if (last === undefined) return "nothing";
  return last.kind === "delete" ? `nothing (write ${last.number} deleted it)` : `write ${last.number}`;
}
