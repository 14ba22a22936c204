import { setTimeout as delay } from "node:timers/promises";

/** Calls `beat` so many times a second, however long each call takes, until stopped. */
export class Rhythm {
  readonly #stop = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  readonly #running: Promise<void>;

  /** @param beat must not reject */
  constructor(perSecond: number, beat: () => Promise<void> | undefined) {
    this.#running = this.#run(1000 / perSecond, beat);
  }

  /** Resolves when no call is under way any more. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await Promise.all(this.#underWay);
  }

  async #run(intervalMs: number, beat: () => Promise<void> | undefined): Promise<void> {
    const { signal } = this.#stop;
    // Not all rhythms on the same beat.
    let next = performance.now() + Math.random() * intervalMs;
    while (!signal.aborted) {
      const wait = next - performance.now();
      if (wait > 0) await delay(wait, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      this.#follow(beat());
      // After a stall of this process it goes on from now, instead of making up for lost beats in a burst.
      next = Math.max(next + intervalMs, performance.now());
    }
  }

  #follow(call: Promise<void> | undefined): void {
    if (call === undefined) return;
    this.#underWay.add(call);
    void call.finally(() => this.#underWay.delete(call));
  }
}
