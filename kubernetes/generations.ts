/** An object that others own: owners are named by UID, as in its `metadata.ownerReferences`. */
export interface Owned<K> {
  readonly key: K;
  readonly uid: string;
  readonly owners: readonly string[];
}

/**
 * The order in which a garbage collector that watches is never shown an owner that goes before what it owns: those that own
 * nothing, then those that owned only these, and so on. What nobody owns is not among them, and comes after all.
 */
export function generations<K>(objects: Iterable<Owned<K>>): K[][] {
  let left = [...objects];
  const found: K[][] = [];
  while (left.length > 0) {
    const owning = new Set(left.flatMap(({ owners }) => owners));
    const leaves = left.filter(({ uid }) => !owning.has(uid));
    // Owners in a circle: there is no order for them.
    const next = leaves.length > 0 ? leaves : left;
    found.push(next.map(({ key }) => key));
    left = next === left ? [] : left.filter(({ uid }) => owning.has(uid));
  }
  return found;
}
