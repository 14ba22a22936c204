import { setTimeout as delay } from "node:timers/promises";
import { displayKey, ownKeys, parseKey, prefixRange } from "../../../etcd/keys.ts";
import type { Key } from "../../../etcd/keys.ts";
import type { Store } from "../../../etcd/store.ts";
import { watch } from "../../../etcd/watch.ts";
import type { Change } from "../../../etcd/watch.ts";
import type { LogicalCluster } from "../../../kubernetes/kcp/logical-cluster.ts";
import { SHARDS } from "./bed.ts";
import type { Bed, ShardName } from "./bed.ts";

/** Every key of a shard's store with what proves that nobody touched it: its value and its modification revision. */
export type Snapshot = ReadonlyMap<Key, string>;

export async function snapshot(store: Store): Promise<Snapshot> {
  const found = new Map<Key, string>();
  for await (const page of store.pages(prefixRange(store.prefix))) {
    for (const { key, value, modRevision } of page)
      found.set(key, `${modRevision} ${value.toString("latin1")}`);
  }
  return found;
}

export async function snapshots(bed: Pick<Bed, "store">): Promise<Record<ShardName, Snapshot>> {
  const [root, second] = await Promise.all(SHARDS.map(async (name) => await snapshot(bed.store(name))));
  return { root: root!, "shard-1": second! };
}

/** What kcp writes by itself at any time, moves or not. */
const BACKGROUND = [/\/coordination\.k8s\.io\/leases\//, /\/core\/events\//, /\/masterleases\//];

/** Keys that were added, changed or removed between two snapshots, kcp's own background writes left out. */
export function touched(
  before: Snapshot,
  after: Snapshot,
  isExpected: (key: Key) => boolean = () => false,
): string[] {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return [...keys]
    .filter((key) => before.get(key) !== after.get(key))
    .filter((key) => !isExpected(key) && !BACKGROUND.some((pattern) => pattern.test(key)))
    .map(displayKey)
    .toSorted();
}

const SETTLED_FOR_MS = 1_500;

/** Waits until kcp has come to rest: what has just been made is still written to by its controllers for a while. */
export async function untilSettled(bed: Pick<Bed, "store">): Promise<void> {
  for (let before = await snapshots(bed); ;) {
    await delay(SETTLED_FOR_MS);
    const after = await snapshots(bed);
    if (SHARDS.every((shard) => touched(before[shard], after[shard]).length === 0)) return;
    before = after;
  }
}

/** All keys of clusters that nobody uses meanwhile, in both stores, with value and modification revision. */
export async function ofBystanders(
  bed: Pick<Bed, "store">,
  clusters: readonly string[],
): Promise<Map<string, string>> {
  const isTheirs = (key: Key) => clusters.includes(parseKey("/registry", key)?.cluster ?? "");
  return new Map(
    Object.entries(await snapshots(bed)).flatMap(([shard, all]) =>
      [...all]
        .filter(([key]) => isTheirs(key))
        .map(([key, value]) => [`${shard} ${key}`, withoutConditions(key, value)] as const),
    ),
  );
}

/** To a LogicalCluster kcp adds a condition, minutes later (kcp v0.32.3, pkg/reconciler/tenancy/defaultapibindinglifecycle). */
function withoutConditions(key: Key, value: string): string {
  if (!key.includes("/core.kcp.io/logicalclusters/")) return value;
  const { metadata, status, ...rest } = JSON.parse(value.slice(value.indexOf("{"))) as LogicalCluster;
  return JSON.stringify({
    ...rest,
    metadata: { ...metadata, managedFields: [] },
    status: { ...status, conditions: [] },
  });
}

/** What each shard's controllers write themselves in a cluster that has moved. */
const OF_THE_SHARD = /\/(logicalclusters|apibindings|customresourcedefinitions)\/|\/kube-root-ca\.crt$/;

/** The keys of a cluster with their values, which a move carries over byte for byte. */
export async function carriedOver(store: Store, cluster: string): Promise<Map<Key, string>> {
  const isCarried = (key: Key) => parseKey(store.prefix, key)?.cluster === cluster && !OF_THE_SHARD.test(key);
  return new Map(
    [...(await snapshot(store))]
      .filter(([key]) => isCarried(key))
      .map(([key, known]) => [key, known.slice(known.indexOf(" "))]),
  );
}

/** What a move may write outside the moved cluster; a path of keys for each, with the reason. */
export function isPartOfMove(cluster: string, workspace: string): (key: Key) => boolean {
  const allowed = [
    // The name of its shard, in the Workspace object of its parent.
    new RegExp(`/tenancy\\.kcp\\.io/workspaces/[^/]+/[^/]+/${workspace}$`),
    // kcp's object that makes the fence, and the binding that serves it.
    /\/migration\.kcp\.io\/logicalclustermigrations\/[^/]+\/root\//,
    /\/apis\.kcp\.io\/apibindings\/customresources\/root\/migration\.kcp\.io$/,
    /\/core\.kcp\.io\/logicalclusters\/customresources\/root\/cluster$/,
    // Where the consumers of an export are, which kcp tells its provider.
    /\/apis\.kcp\.io\/apiexportendpointslices\//,
    // Bound CRDs that the destination lacked.
    /\/customresourcedefinitions\/system:bound-crds\//,
  ];
  return (key) =>
    parseKey("/registry", key)?.cluster === cluster || allowed.some((pattern) => pattern.test(key));
}

/** Keys of a cluster in a store, as a person reads them. All keys are looked at: moves find them by families. */
export async function keysOf(store: Store, cluster: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const page of store.pages(prefixRange(store.prefix), { keysOnly: true }))
    for (const { key } of page)
      if (parseKey(store.prefix, key)?.cluster === cluster) keys.push(displayKey(key));
  return keys;
}

/** rehome's own keys for a cluster in a store. */
export async function ownKeysLeft(store: Store, cluster: string): Promise<string[]> {
  const { entries } = await store.read(prefixRange(`${store.prefix}.rehome/${cluster}/`));
  return entries.map(({ key }) => displayKey(key));
}

export function own(cluster: string) {
  return ownKeys("/registry", cluster);
}

/** Longer than a whole move. */
const AWAITED_FOR_MS = 300_000;

/** Resolves with the first change of a store, from now on, that `matches`. The watch is open when this returns. */
export async function nextChange(
  store: Store,
  matches: (change: Change) => boolean,
): Promise<{ readonly seen: Promise<Change> }> {
  const from = (await store.head()) + 1n;
  const stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(AWAITED_FOR_MS)]);
  const opened = Promise.withResolvers<void>();
  const range = prefixRange(store.prefix);
  const find = async (): Promise<Change> => {
    const options = { range, from, previous: true, signal, onOpen: () => opened.resolve() };
    for await (const changes of watch(store, options)) {
      const found = changes.find(matches);
      if (found) {
        stop.abort();
        return found;
      }
    }
    throw new Error("the change that was awaited has not come");
  };
  const seen = find();
  seen.catch((error: unknown) => opened.reject(error));
  await opened.promise;
  return { seen };
}

/** What was changed of a cluster in a store, from a revision up to now. */
export async function changesOf(store: Store, cluster: string, from: bigint): Promise<Change[]> {
  const until = await store.head();
  const stop = new AbortController();
  const found: Change[] = [];
  if (until < from) return found;
  for await (const changes of watch(store, { range: prefixRange(store.prefix), from, signal: stop.signal })) {
    found.push(...changes.filter(({ entry }) => parseKey(store.prefix, entry.key)?.cluster === cluster));
    if (changes.some(({ entry }) => entry.modRevision >= until)) stop.abort();
  }
  return found;
}

/** How often each key of a cluster was put in a store, from a revision up to now. */
export async function putsOf(store: Store, cluster: string, from: bigint): Promise<Map<Key, number>> {
  const puts = new Map<Key, number>();
  for (const { type, entry } of await changesOf(store, cluster, from)) {
    if (type === "Put") puts.set(entry.key, (puts.get(entry.key) ?? 0) + 1);
  }
  return puts;
}
