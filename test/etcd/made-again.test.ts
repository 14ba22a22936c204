import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { mustNotBeMadeAgain } from "../../activities/logical-cluster/made-again.ts";
import type { Key } from "../../etcd/keys.ts";
import { put, remove } from "../../etcd/store.ts";
import { PREFIX, twoStores } from "./fixture.ts";
import type { TwoStores } from "./fixture.ts";

let stores: TwoStores;
beforeAll(async () => {
  stores = await twoStores();
});
afterAll(() => stores.stop());
beforeEach(() => stores.wipe());

const NAMESPACE = `${PREFIX}/core/namespaces/abc/again`;
const CRD = `${PREFIX}/apiextensions.k8s.io/customresourcedefinitions/abc/again`;
const BINDING = `${PREFIX}/apis.kcp.io/apibindings/customresources/abc/again`;
const CONFIG_MAP = `${PREFIX}/core/configmaps/abc/default/again`;

const set = async (key: Key) => void (await stores.origin.transact([], [put(key, "{}")]));
const unset = async (key: Key) => void (await stores.origin.transact([], [remove(key)]));

/** Whether a switch is still possible after what happens to a key that was there before, or was not. */
async function outcomeOf(key: Key, wasThere: boolean, ...happens: ((key: Key) => Promise<void>)[]) {
  if (wasThere) await set(key);
  const since = await stores.origin.head();
  for (const one of happens) await one(key);
  const until = await stores.origin.head();
  await mustNotBeMadeAgain(stores.origin, new Set([key]), since, until);
  return "switched";
}

test.each([NAMESPACE, CRD, BINDING])("%s: made again is not switched, with a word on why", async (key) => {
  await expect(outcomeOf(key, true, unset, set)).rejects.toMatchObject({
    type: "NotVerified",
    message: expect.stringContaining(`${key} was deleted just before the switch`) as string,
  });
});

test.each([
  ["changed", NAMESPACE, true, [set]],
  ["new", NAMESPACE, false, [set]],
  ["new, and gone again", NAMESPACE, false, [set, unset]],
  ["gone", NAMESPACE, true, [unset]],
  ["gone", CRD, true, [unset]],
  ["made again, but emptied by nobody", CONFIG_MAP, true, [unset, set]],
])("%s: %s is switched", async (_what, key, wasThere, happens) => {
  expect(await outcomeOf(key, wasThere, ...happens)).toBe("switched");
});

test("a binding that has gone is not switched: what it has bound is another one's by then", async () => {
  await expect(outcomeOf(BINDING, true, unset)).rejects.toMatchObject({ type: "NotVerified" });
});
