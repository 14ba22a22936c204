import { CUSTOM_RESOURCES, clusterRange, isIdentity, prefixEnd, prefixRange } from "./keys.ts";
import type { ClusterRange, Key, KeyRange } from "./keys.ts";
import type { Store } from "./store.ts";

/** Prefixes of the families that were found in a store before, in byte order: where not to look for others. */
const known = new WeakMap<Store, readonly Key[]>();

/**
 * Lists the families of a shard by skip-scan: read one key, jump behind its family, repeat. Later only what lies between
 * known families is looked at, so the cost is the number of families and identities, not of keys.
 * @returns `<group>/<resource>`, with `/customresources` or `/<identity>` where the family has it, in byte order; one
 *   that was found before may have no keys any more.
 */
async function families(store: Store): Promise<string[]> {
  const prefixes = await familyPrefixes(store);
  return prefixes.map((prefix) => prefix.slice(store.prefix.length + 1, -1));
}

async function familyPrefixes(store: Store): Promise<readonly Key[]> {
  const root = `${store.prefix}/`;
  const before = known.get(store) ?? [];
  const found = await Promise.all(
    gapsBetween(before, prefixRange(root)).map(async (gap) => {
      return (await store.count(gap)) === 0 ? [] : await familiesIn(store, gap);
    }),
  );
  const now = [...new Set([...before, ...found.flat()])].toSorted();
  known.set(store, now);
  return now;
}

/**
 * Ranges that hold whatever key a cluster may have or have had, and of others' keys only those in families of which the
 * store holds nothing.
 */
export async function allRangesOf(store: Store, cluster: string): Promise<KeyRange[]> {
  const prefixes = await familyPrefixes(store);
  const ours = prefixes.map((prefix) => prefixRange(`${prefix}${cluster}/`));
  return [...ours, ...gapsBetween(prefixes, prefixRange(`${store.prefix}/`))];
}

function gapsBetween(prefixes: readonly Key[], { start, end }: KeyRange): KeyRange[] {
  const starts = [start, ...prefixes.map((prefix) => prefixEnd(prefix))];
  const gaps = starts.map((from, index) => ({ start: from, end: prefixes[index] ?? end }));
  return gaps.filter((gap) => gap.start < gap.end);
}

/** Prefixes of the families that have keys in a range. */
async function familiesIn(store: Store, { start, end }: KeyRange): Promise<Key[]> {
  const found: Key[] = [];
  for (let at = start; ; at = prefixEnd(found.at(-1)!)) {
    const key = await firstKey(store, { start: at, end });
    if (key === undefined) return found;
    found.push(familyPrefix(store.prefix, key));
  }
}

/**
 * Resources that come from CRDs have a marker segment before the cluster; built-in ones have none. One resource is one or
 * the other: an API server that serves a built-in never hands its path to a CRD.
 */
function familyPrefix(prefix: string, key: Key): Key {
  const [group, resource, third = ""] = key.slice(prefix.length + 1).split("/");
  const family = `${prefix}/${group}/${resource}/`;
  return third === CUSTOM_RESOURCES || isIdentity(third) ? `${family}${third}/` : family;
}

/**
 * The first key of a range. etcd walks through all keys of a range, whatever the limit, under a lock that writers wait for
 * (etcd v3.6.8, server/storage/mvcc/index.go, `Revisions`). So it is asked for a narrow range first, of those keys that
 * have most of `start` in common, and for a wider one as long as there is none.
 */
async function firstKey(store: Store, { start, end }: KeyRange): Promise<Key | undefined> {
  let from = start;
  for (let cut = 1; from < end; cut = Math.ceil(cut * 1.25)) {
    const common = start.slice(0, Math.max(0, start.length - cut));
    const isNarrow = common.length > store.prefix.length + 1 && prefixEnd(common) < end;
    const to = isNarrow ? prefixEnd(common) : end;
    const { entries } = await store.read({ start: from, end: to }, { limit: 1, keysOnly: true });
    if (entries[0]) return entries[0].key;
    from = to;
  }
  return undefined;
}

export interface CountedRange extends ClusterRange {
  readonly keys: number;
}

/**
 * The ranges that hold keys of `cluster`, in byte order of their families.
 * @param revision count as of this revision; families are always those of now.
 */
export async function rangesOf(store: Store, cluster: string, revision?: bigint): Promise<CountedRange[]> {
  const ranges = (await families(store)).map((family) => clusterRange(store.prefix, family, cluster));
  const counted = await Promise.all(
    ranges.map(async (range) => ({ ...range, keys: await store.count(range, revision) })),
  );
  return counted.filter((range) => range.keys > 0);
}
