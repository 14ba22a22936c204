import { CUSTOM_RESOURCES, clusterRange, isIdentity, prefixEnd } from "./keys.ts";
import type { ClusterRange, Key } from "./keys.ts";
import type { Store } from "./store.ts";

/**
 * Lists the families of a shard by skip-scan: read one key, jump behind its `<group>/<resource>/`, repeat. The cost is
 * the number of families and identities, not of keys.
 * @returns `<group>/<resource>`, with `/customresources` or `/<identity>` where the family has it, in byte order.
 */
export async function families(store: Store): Promise<string[]> {
  const root = `${store.prefix}/`;
  const found: { readonly family: string; readonly isMarked: boolean }[] = [];
  for await (const [group, resource, third = ""] of firstKeys(store, root, 2)) {
    // Resources that come from CRDs have a marker segment before the cluster; built-in ones have none. One resource
    // is one or the other: an API server that serves a built-in never hands its path to a CRD.
    found.push({
      family: `${group}/${resource}`,
      isMarked: third === CUSTOM_RESOURCES || isIdentity(third),
    });
  }
  const layouts = found.map(async ({ family, isMarked }) =>
    isMarked ? await layoutsOf(store, family) : [family],
  );
  return (await Promise.all(layouts)).flat();
}

/** A family that comes from CRDs, once for `customresources` and once for each identity. */
async function layoutsOf(store: Store, family: string): Promise<string[]> {
  const found: string[] = [];
  for await (const [marker] of firstKeys(store, `${store.prefix}/${family}/`, 1))
    found.push(`${family}/${marker}`);
  return found;
}

/** The first key of each group of keys that share `depth` segments after `root`, as its segments after `root`. */
async function* firstKeys(store: Store, root: Key, depth: number): AsyncGenerator<string[], void, undefined> {
  const end = prefixEnd(root);
  let start = root;
  for (;;) {
    const { entries } = await store.read({ start, end }, { limit: 1, keysOnly: true });
    const key = entries[0]?.key;
    if (key === undefined) return;
    const segments = key.slice(root.length).split("/");
    yield segments;
    start = prefixEnd(`${root}${segments.slice(0, depth).join("/")}/`);
  }
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
