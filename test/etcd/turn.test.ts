import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { LockedError } from "../../etcd/errors.ts";
import { turnKey } from "../../etcd/keys.ts";
import { passTurn, takeTurn } from "../../etcd/turn.ts";
import { PREFIX, startMove, twoStores } from "./fixture.ts";
import type { TwoStores } from "./fixture.ts";

const ours = { cluster: "ours", move: "move-1", way: "there" };
const theirs = { cluster: "theirs", move: "move-2", way: "back" };
const too = { cluster: "too", move: "move-3", way: "there" };
const KEY = turnKey(PREFIX);

let stores: TwoStores;
beforeAll(async () => {
  stores = await twoStores();
});
afterAll(() => stores.stop());
beforeEach(() => stores.wipe());

const lock = async ({ cluster, move }: typeof ours) => (await startMove(stores, cluster, move)).origin;

test("one move after the other has its turn, and it leaves nothing behind", async () => {
  const [first, second] = [await lock(ours), await lock(theirs)];
  expect(await takeTurn(stores.origin, KEY, ours)).toBeUndefined();
  expect(await takeTurn(stores.origin, KEY, ours)).toBeUndefined();
  expect(await takeTurn(stores.origin, KEY, theirs)).toEqual(ours);
  // Who does not have it passes nothing on.
  await passTurn(second, KEY, theirs.move);
  expect(await takeTurn(stores.origin, KEY, theirs)).toEqual(ours);
  await passTurn(first, KEY, ours.move);
  expect(await takeTurn(stores.origin, KEY, theirs)).toBeUndefined();
  expect(await takeTurn(stores.origin, KEY, ours)).toEqual(theirs);
  await passTurn(second, KEY, theirs.move);
  expect((await stores.origin.get(KEY)).entry).toBeUndefined();
});

test("moves that go the same way have their turn side by side", async () => {
  const first = await lock(ours);
  const second = await lock(too);
  await lock(theirs);
  expect(await takeTurn(stores.origin, KEY, ours)).toBeUndefined();
  expect(await takeTurn(stores.origin, KEY, too)).toBeUndefined();
  expect(await takeTurn(stores.origin, KEY, theirs)).toEqual(ours);
  await passTurn(first, KEY, ours.move);
  expect(await takeTurn(stores.origin, KEY, theirs)).toEqual(too);
  await second.release();
  expect(await takeTurn(stores.origin, KEY, theirs)).toBeUndefined();
  expect(await takeTurn(stores.origin, KEY, ours)).toEqual(theirs);
});

test("of many at once one has it", async () => {
  const many = Array.from({ length: 8 }, (_, i) => ({ cluster: `c${i}`, move: `m${i}`, way: `w${i}` }));
  for (const one of many) await lock(one);
  const answers = await Promise.all(many.map(async (one) => await takeTurn(stores.origin, KEY, one)));
  const [winner] = many.filter((_, i) => answers[i] === undefined);
  for (const [i, one] of many.entries()) expect(answers[i]).toEqual(one === winner ? undefined : winner);
});

test("the turn of a move that has lost its lock is over", async () => {
  const first = await lock(ours);
  await lock(theirs);
  await takeTurn(stores.origin, KEY, ours);
  await first.release();
  expect(await takeTurn(stores.origin, KEY, theirs)).toBeUndefined();
  await expect(takeTurn(stores.origin, KEY, ours)).rejects.toThrow(LockedError);
});
