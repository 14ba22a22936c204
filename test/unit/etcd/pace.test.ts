import { setImmediate as turn, setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { IN_FLIGHT, Pace } from "../../../etcd/pace.ts";

/** A store that answers so many calls a second, one after the other, each not before `leastMs`. Its time is made up. */
class ModelStore {
  now = 0;
  underWay = 0;
  most = 0;
  #freeAt = 0;
  readonly #answers: { readonly at: number; readonly resolve: () => void }[] = [];
  readonly #model: { readonly perSecond: number; readonly leastMs: number };

  constructor(model: { perSecond: number; leastMs: number }) {
    this.#model = model;
  }

  async call(): Promise<void> {
    this.underWay += 1;
    this.most = Math.max(this.most, this.underWay);
    this.#freeAt = Math.max(this.#freeAt, this.now) + 1_000 / this.#model.perSecond;
    const at = Math.max(this.#freeAt, this.now + this.#model.leastMs);
    await new Promise<void>((resolve) => this.#answers.push({ at, resolve }));
    this.underWay -= 1;
  }

  /** Lets time pass to the next answer. @returns false when nothing is under way */
  step(): boolean {
    const next = this.#answers.toSorted((a, b) => a.at - b.at)[0];
    if (next === undefined) return false;
    this.#answers.splice(this.#answers.indexOf(next), 1);
    this.now = Math.max(this.now, next.at);
    next.resolve();
    return true;
  }
}

async function load(model: { perSecond: number; leastMs: number }, calls: number) {
  const store = new ModelStore(model);
  const pace = new Pace(() => store.now);
  const all = Promise.all(
    Array.from({ length: calls }, async () => await pace.run(async () => await store.call())),
  );
  await turn();
  while (store.step()) await turn();
  await all;
  return { pace, store, perSecond: (1_000 * calls) / store.now };
}

describe("the pace", () => {
  it("rises to the most where a store is quick", async () => {
    const { pace, store, perSecond } = await load({ perSecond: 8_000, leastMs: 0.5 }, 5_000);
    expect(pace.limit).toBe(IN_FLIGHT);
    expect(store.most).toBe(IN_FLIGHT);
    expect(perSecond).toBeGreaterThan(7_800);
  });

  it("leaves a busy store little to queue, and loses nothing by it", async () => {
    const { pace, perSecond } = await load({ perSecond: 400, leastMs: 1 }, 4_000);
    // 20 ms at 400 a second are 8.
    expect(pace.limit).toBeLessThan(13);
    expect(perSecond).toBeGreaterThan(390);
  });

  it("does not take a store that is far away for a busy one", async () => {
    const { pace } = await load({ perSecond: 8_000, leastMs: 60 }, 5_000);
    expect(pace.limit).toBe(IN_FLIGHT);
  });

  it("makes every call once, and hands on what it throws", async () => {
    const pace = new Pace();
    const made: number[] = [];
    const calls = Array.from({ length: 200 }, async (_, number) => {
      return await pace.run(async () => {
        await turn();
        made.push(number);
        if (number % 2 === 1) throw new Error(`call ${number}`);
      });
    });
    const results = await Promise.allSettled(calls);
    expect(results.filter(({ status }) => status === "rejected")).toHaveLength(100);
    expect(made.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, number) => number));
  });

  it("begins low where somebody else is heeded, rises while nobody waits, and falls when somebody does", async () => {
    const { pace } = await load({ perSecond: 8_000, leastMs: 0.5 }, 5_000);
    pace.heed(5);
    expect(pace.limit).toBe(1);
    for (let times = 0; times < 100; times++) pace.heed(5);
    expect(pace.limit).toBe(IN_FLIGHT);
    pace.heed(50);
    expect(pace.limit).toBe(IN_FLIGHT / 2);
    for (let times = 0; times < 20; times++) pace.heed(2_000);
    expect(pace.limit).toBe(1);
    pace.heedNobody();
    expect(pace.limit).toBe(IN_FLIGHT);
  });

  it("does not take somebody who is always far away for one who waits", async () => {
    const { pace } = await load({ perSecond: 8_000, leastMs: 0.5 }, 5_000);
    for (let times = 0; times < 100; times++) pace.heed(80 + (times % 3) * 10);
    expect(pace.limit).toBe(IN_FLIGHT);
  });

  it("rests after each call while somebody waits however few there are, and comes to an end", async () => {
    const pace = new Pace();
    pace.heed(1);
    for (let times = 0; times < 20; times++) pace.heed(1_000);
    const [callMs, calls] = [5, 3];
    const begun = performance.now();
    const call = async () => await delay(callMs);
    await Promise.all(Array.from({ length: calls }, async () => await pace.run(call)));
    // A quarter of the time is the calls'; timers may be a millisecond early.
    expect(performance.now() - begun).toBeGreaterThan(3 * calls * (callMs - 1));
  });

  it("makes waiting calls as soon as nobody else waits any more", async () => {
    const pace = new Pace();
    for (let times = 0; times < 2; times++) pace.heed(1);
    const { promise: end, resolve } = Promise.withResolvers<void>();
    let begun = 0;
    const calls = Array.from({ length: 3 }, async () => {
      await pace.run(async () => {
        begun += 1;
        await end;
      });
    });
    await turn();
    expect(begun).toBe(1);
    pace.heed(1);
    await turn();
    expect(begun).toBe(2);
    resolve();
    await Promise.all(calls);
  });
});
