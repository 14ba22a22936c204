import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { layFloor, readFloor, writeFloor } from "../../etcd/floor.ts";
import { rangesOf } from "../../etcd/scan.ts";
import { put } from "../../etcd/store.ts";
import type { Store } from "../../etcd/store.ts";
import { Token } from "../../etcd/token.ts";
import { PREFIX, dump, fill, never, startMove, twoStores } from "./fixture.ts";
import type { TwoStores } from "./fixture.ts";

const CLUSTER = "1abc2def3ghi4jkl";
const COUNT = 500;
const keyOf = (number: number) => `${PREFIX}/core/configmaps/${CLUSTER}/default/cm-${number}`;
const neighbour = `${PREFIX}/core/configmaps/${CLUSTER}0/default/cm`;

let stores: TwoStores;
beforeAll(async () => {
  stores = await twoStores();
});
afterAll(async () => {
  await stores.stop();
});
beforeEach(async () => {
  await stores.wipe();
});

async function lowestRevision(store: Store): Promise<bigint> {
  let lowest = await store.head();
  for (const range of await rangesOf(store, CLUSTER)) {
    for await (const page of store.pages(range)) {
      for (const { modRevision } of page) if (modRevision < lowest) lowest = modRevision;
    }
  }
  return lowest;
}

it("lifts every copied key above the floor, as it is, and touches nobody else's", async () => {
  const store = stores.destination;
  const keys = Array.from({ length: COUNT }, (_, number) => [keyOf(number), `value ${number}`] as const);
  await fill(store, [...keys, [neighbour, "not ours"]]);
  const { destination } = await startMove(stores, CLUSTER);
  const before = await dump(store);
  const target = (await store.head()) + 3_000n;
  const { revision, rewritten } = await layFloor(destination, target, { signal: never });
  expect(revision).toBeGreaterThanOrEqual(target);
  expect(rewritten).toBe(COUNT);
  expect(await lowestRevision(store)).toBeGreaterThan(revision);
  const values = (all: typeof before) => [...all].filter(([key]) => key.startsWith(`${PREFIX}/`));
  expect(values(await dump(store))).toEqual(values(before));
  expect((await store.get(neighbour)).entry?.modRevision).toBeLessThan(target);
});

it("never puts an older value over what is written meanwhile", async () => {
  const store = stores.destination;
  await fill(
    store,
    Array.from({ length: COUNT }, (_, number) => [keyOf(number), "old"] as const),
  );
  const { destination } = await startMove(stores, CLUSTER);
  // Every key changes after it was read and before it is written again.
  const racing = Object.create(destination, {
    transact: {
      async value(...[conditions, operations]: Parameters<Token["transact"]>) {
        const target = operations.at(0)?.request_put?.key as Buffer;
        if (conditions.length > 0) await store.transact([], [put(target.toString("latin1"), "new")]);
        return await destination.transact(conditions, operations);
      },
    },
  }) as Token;
  await layFloor(racing, (await store.head()) + 100n, { signal: never });
  const values = [...(await dump(store))].filter(([key]) => key.startsWith(`${PREFIX}/`));
  expect(new Set(values.map(([, value]) => value))).toEqual(new Set(["new"]));
});

it("is remembered, and nothing is written by an attempt that was superseded", async () => {
  const { destination } = await startMove(stores, CLUSTER);
  const floor = { revision: 12n, origin: 7n, at: 1_700_000_000_000 };
  await writeFloor(destination, floor);
  expect(await readFloor(stores.destination, CLUSTER)).toEqual(floor);
  await fill(stores.destination, [[keyOf(1), "value"]]);
  await Token.raise(stores.destination, CLUSTER, { move: "test-move", epoch: Number.MAX_SAFE_INTEGER });
  const late = layFloor(destination, (await stores.destination.head()) + 10n, { signal: never });
  await expect(late).rejects.toThrow(/newer attempt/);
});
