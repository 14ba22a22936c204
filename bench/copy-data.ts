import { randomUUID } from "node:crypto";
import { put } from "../etcd/store.ts";
import type { Store } from "../etcd/store.ts";
import { forEachConcurrently } from "../etcd/writer.ts";

export const CLUSTER = "1abc2def3ghi4jkl";
/** Bytes of each value: a small object. */
export const VALUE_BYTES = 600;
/** Of each key. */
export const KEY_BYTES = 64;

/** A built-in resource, a custom resource and a bound one, so that all layouts are there. */
const families = [
  "core/configmaps",
  "core/secrets",
  "toys.example.com/widgets/customresources",
  `tools.example.com/gadgets/${"c".repeat(64)}`,
];
const perTransaction = 100;
const inFlight = 8;

/** Puts so many objects of one cluster, in equal parts of four families. Nobody owns any, as nobody watches here. */
export async function fillCluster(store: Store, keys: number): Promise<void> {
  await putAll(store, keys, (number) => {
    const family = families[number % families.length]!;
    const name = `object-${String(number).padStart(8, "0")}`;
    return [`${store.prefix}/${family}/${CLUSTER}/default/${name}`, valueOf(name)];
  });
}

/** An object as an API server stores it, of exactly {@link VALUE_BYTES}. */
function valueOf(name: string): string {
  const metadata = {
    name,
    namespace: "default",
    uid: randomUUID(),
    creationTimestamp: "2026-01-01T00:00:00Z",
  };
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { payload: "" } };
  object.data.payload = "x".repeat(VALUE_BYTES - JSON.stringify(object).length);
  return JSON.stringify(object);
}

/** Many small puts: no API server watches these stores, so a hundred may share a transaction. */
export async function putAll(
  store: Store,
  count: number,
  entryOf: (number: number) => readonly [key: string, value: string],
): Promise<void> {
  const starts = Array.from(
    { length: Math.ceil(count / perTransaction) },
    (_, index) => index * perTransaction,
  );
  await forEachConcurrently(starts, inFlight, async (start) => {
    const size = Math.min(perTransaction, count - start);
    const puts = Array.from({ length: size }, (_, index) => put(...entryOf(start + index)));
    await store.transact([], puts);
  });
}
