import { setTimeout as delay } from "node:timers/promises";

/** Calls under way at most: enough to keep a store busy that has nothing else to do. */
export const IN_FLIGHT = 64;
const FEWEST = 4;
/** Slower answers than this, and than a few times the quickest one, mean that calls wait for each other. */
const SLOW_MS = 20;
const SLOW_TIMES = 3;
const LESS = 0.7;
/** For as many as may be under way while another is heard to wait. */
const HALF = 0.5;
/** A quarter of a call: one that is followed by a rest of three times as long, */
const LEAST = 0.25;
/** but not longer than this. */
const LONGEST_REST_MS = 1_000;

/**
 * How many calls are under way at a store: as many as it answers quickly, 64 at most. A store that is busy answers none
 * of them sooner for being asked more at once; what grows is the queue that its own clients stand in as well. So, as TCP
 * does, the number rises by one a round and falls by a third when answers become slow. Slow is measured against the
 * quickest answer too, so a store that is far away is not taken for a busy one.
 *
 * A quick store may have a slow reader: an API server that watches it and has clients of its own. Who listens to that
 * one tells how long it takes ({@link Pace.heed}), and the number stays below what it bears.
 */
export class Pace {
  #limit = IN_FLIGHT / 4;
  /** Undefined until somebody is heeded. */
  #borne: number | undefined;
  #quickestHeededMs = Infinity;
  #underWay = 0;
  #quickestMs = Infinity;
  #fellAt = -Infinity;
  readonly #waiting: (() => void)[] = [];
  readonly #now: () => number;

  /** @param now ms, for tests */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** How many may be under way at the moment. */
  get limit(): number {
    return Math.max(1, Math.floor(Math.min(this.#limit, this.#borne ?? IN_FLIGHT)));
  }

  /**
   * Begins with the least: what comes at once, a slow reader has to get through long after it was heeded.
   * @param ms how long somebody else has waited for an answer
   */
  heed(ms: number): void {
    this.#quickestHeededMs = Math.min(this.#quickestHeededMs, ms);
    const borne = this.#borne ?? LEAST;
    this.#borne = isSlow(ms, this.#quickestHeededMs)
      ? Math.max(LEAST, borne * HALF)
      : Math.min(IN_FLIGHT, borne + Math.min(1, borne));
    this.#admit();
  }

  /** From now on only the store's own answers count. */
  heedNobody(): void {
    this.#borne = undefined;
    this.#admit();
  }

  /** Makes the call as soon as it may be made. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    while (this.#underWay >= this.limit) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#underWay += 1;
    const begun = this.#now();
    try {
      const answer = await call().finally(() => this.#learn(begun));
      await this.#rest(this.#now() - begun);
      return answer;
    } finally {
      this.#underWay -= 1;
      this.#admit();
    }
  }

  #admit(): void {
    for (let free = this.limit - this.#underWay; free > 0; free--) this.#waiting.shift()?.();
  }

  /** Less than one call under way is one now and then. */
  async #rest(ms: number): Promise<void> {
    if (this.#borne === undefined || this.#borne >= 1) return;
    await delay(Math.min(LONGEST_REST_MS, ms / this.#borne - ms));
  }

  #learn(begun: number): void {
    const now = this.#now();
    const ms = now - begun;
    this.#quickestMs = Math.min(this.#quickestMs, ms);
    if (!isSlow(ms, this.#quickestMs)) {
      this.#limit = Math.min(IN_FLIGHT, this.#limit + 1 / this.#limit);
    } else if (begun >= this.#fellAt) {
      // Only calls that were begun under the present limit tell of it.
      this.#limit = Math.max(FEWEST, this.#limit * LESS);
      this.#fellAt = now;
    }
  }
}

function isSlow(ms: number, quickestMs: number): boolean {
  return ms > Math.max(SLOW_MS, SLOW_TIMES * quickestMs);
}
