import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { forEachConcurrently } from "../../../etcd/writer.ts";

async function* numbers(count: number, onEnd: () => void): AsyncGenerator<number, void, undefined> {
  try {
    for (let number = 0; number < count; number++) yield number;
  } finally {
    onEnd();
  }
}

async function* broken(): AsyncGenerator<number, void, undefined> {
  yield 1;
  await turn();
  throw new Error("unreadable");
}

const nothing = () => undefined;

it("runs every item once, with as many at a time as allowed and no more", async () => {
  const seen: number[] = [];
  let running = 0;
  let most = 0;
  await forEachConcurrently(numbers(100, nothing), 7, async (number) => {
    most = Math.max(most, ++running);
    await turn();
    running -= 1;
    seen.push(number);
  });
  expect(most).toBe(7);
  expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, number) => number));
});

it("throws the first failure once all that was started has ended, and reads no more", async () => {
  let ended = 0;
  let started = 0;
  let isClosed = false;
  const run = forEachConcurrently(
    numbers(1_000, () => (isClosed = true)),
    5,
    async (number) => {
      started += 1;
      await turn();
      ended += 1;
      if (number === 3) throw new Error("three");
    },
  );
  await expect(run).rejects.toThrow("three");
  expect(ended).toBe(started);
  expect(started).toBeLessThan(20);
  expect(isClosed).toBe(true);
});

it("throws what the reading of items throws", async () => {
  const seen: number[] = [];
  await expect(forEachConcurrently(broken(), 4, async (number) => void seen.push(number))).rejects.toThrow(
    "unreadable",
  );
  expect(seen).toEqual([1]);
});

it("takes lists as well", async () => {
  const seen: number[] = [];
  await forEachConcurrently([1, 2, 3], 10, async (number) => void seen.push(number));
  expect(seen).toEqual([1, 2, 3]);
});
