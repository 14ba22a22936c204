import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Store, put } from "../../etcd/store.ts";
import { keyToBuffer, prefixRange } from "../../etcd/keys.ts";
import type { Key } from "../../etcd/keys.ts";
import { Token } from "../../etcd/token.ts";
import { Writer } from "../../etcd/writer.ts";
import { startEtcd } from "../../testbed/etcd.ts";

export const PREFIX = "/registry";

/** Two real etcds over TLS, as two shards have them, for one test file. */
export async function twoStores() {
  const dir = mkdtempSync(join(tmpdir(), "rehome-etcd-test-"));
  const servers = await Promise.all(
    ["origin", "destination"].map((name) => startEtcd({ dir, name, tls: true })),
  );
  const [origin, destination] = servers.map(
    ({ name, endpoint, tls }) =>
      new Store({ name: `etcd of ${name}`, endpoints: [endpoint], prefix: PREFIX, tls }),
  ) as [Store, Store];
  return {
    dir,
    servers,
    origin,
    destination,
    async wipe() {
      for (const store of [origin, destination]) {
        await store.transact(
          [],
          [{ request_delete_range: { key: keyToBuffer("\0"), range_end: keyToBuffer("\0") } }],
        );
      }
    },
    async stop() {
      origin.close();
      destination.close();
      await Promise.all(servers.map(({ server }) => server.stop()));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export type TwoStores = Awaited<ReturnType<typeof twoStores>>;

let epochs = 0;

/** Tokens of one move in both stores, and the writer that carries from one to the other. */
export async function startMove(stores: TwoStores, cluster: string, move = "test-move") {
  epochs += 1;
  const claim = { move, epoch: epochs };
  const origin = await Token.raise(stores.origin, cluster, claim, { create: true });
  const destination = await Token.raise(stores.destination, cluster, claim, { create: true });
  return { origin, destination, writer: new Writer(origin, destination) };
}

/** Puts many keys, a hundred a transaction. */
export async function fill(store: Store, entries: Iterable<readonly [Key, string | Buffer]>): Promise<void> {
  let operations = [];
  for (const [key, value] of entries) {
    operations.push(put(key, value));
    if (operations.length === 100) {
      await store.transact([], operations);
      operations = [];
    }
  }
  if (operations.length > 0) await store.transact([], operations);
}

/** Everything below the registry prefix, as key → value text. */
export async function dump(store: Store): Promise<Map<Key, string>> {
  const { entries } = await store.read(prefixRange(`${PREFIX}/`));
  return new Map(entries.map(({ key, value }) => [key, value.toString("latin1")]));
}

export const never = new AbortController().signal;
