import { randomUUID } from "node:crypto";
import type { Store } from "../../../etcd/store.ts";
import { put } from "../../../etcd/store.ts";
import { forEachConcurrently } from "../../../etcd/writer.ts";

const PER_TRANSACTION = 100;
const IN_FLIGHT = 8;

/**
 * Puts ConfigMaps `bulk-<n>` into namespace `default` of a cluster straight into its shard's store: an API server reads
 * JSON as well as its own encoding. About 10,000 in a second, where creating them through the API takes minutes.
 */
export async function putConfigMaps(
  store: Store,
  cluster: string,
  count: number,
  data: Record<string, string>,
): Promise<void> {
  async function* transactions() {
    for (let first = 0; first < count; first += PER_TRANSACTION) {
      const size = Math.min(PER_TRANSACTION, count - first);
      yield Array.from({ length: size }, (_, i) => configMap(store, cluster, first + i, data));
    }
  }
  await forEachConcurrently(transactions(), IN_FLIGHT, async (puts) => void (await store.transact([], puts)));
}

function configMap(store: Store, cluster: string, number: number, data: Record<string, string>) {
  const name = `bulk-${number}`;
  const creationTimestamp = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const metadata = { name, namespace: "default", uid: randomUUID(), creationTimestamp };
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
  return put(`${store.prefix}/core/configmaps/${cluster}/default/${name}`, JSON.stringify(object));
}
