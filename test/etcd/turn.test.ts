import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { LockedError } from "../../etcd/errors.ts";
import { turnKey } from "../../etcd/keys.ts";
import { passTurn, takeTurn } from "../../etcd/turn.ts";
import { PREFIX, startMove, twoStores } from "./fixture.ts";
import type { TwoStores } from "./fixture.ts";

const ours = { cluster: "ours", move: "move-1" };
const theirs = { cluster: "theirs", move: "move-2" };

let stores: TwoStores;
beforeAll(async () => {
  stores = await twoStores();
});
afterAll(() => stores.stop());
beforeEach(() => stores.wipe());

const lock = async ({ cluster, move }: typeof ours) => (await startMove(stores, cluster, move)).origin;

test("one move after the other has its turn, and it leaves nothing behind", async () => {
  const [first, second] = [await lock(ours), await lock(theirs)];
  expect(await takeTurn(stores.origin, ours)).toBeUndefined();
  expect(await takeTurn(stores.origin, ours)).toBeUndefined();
  expect(await takeTurn(stores.origin, theirs)).toEqual(ours);
  // Who does not have it passes nothing on.
  await passTurn(second, theirs.move);
  expect(await takeTurn(stores.origin, theirs)).toEqual(ours);
  await passTurn(first, ours.move);
  expect(await takeTurn(stores.origin, theirs)).toBeUndefined();
  expect(await takeTurn(stores.origin, ours)).toEqual(theirs);
  await passTurn(second, theirs.move);
  expect((await stores.origin.get(turnKey(PREFIX))).entry).toBeUndefined();
});

test("of many at once one has it", async () => {
  const many = Array.from({ length: 8 }, (_, i) => ({ cluster: `c${i}`, move: `m${i}` }));
  for (const one of many) await lock(one);
  const answers = await Promise.all(many.map(async (one) => await takeTurn(stores.origin, one)));
  const [winner] = many.filter((_, i) => answers[i] === undefined);
  for (const [i, one] of many.entries()) expect(answers[i]).toEqual(one === winner ? undefined : winner);
});

test("the turn of a move that has lost its lock is over", async () => {
  const first = await lock(ours);
  await lock(theirs);
  await takeTurn(stores.origin, ours);
  await first.release();
  expect(await takeTurn(stores.origin, theirs)).toBeUndefined();
  await expect(takeTurn(stores.origin, ours)).rejects.toThrow(LockedError);
});
