import { SECRETS, displayKey, prefixRange } from "../../etcd/keys.ts";
import type { ClusterRange, KeyRange } from "../../etcd/keys.ts";
import type { Entry, Store } from "../../etcd/store.ts";
import { encryptionConfigHash } from "../../kubernetes/encryption-config.ts";
import { isOneOf } from "../../kubernetes/kcp/families.ts";
import { encryptionOf } from "../../kubernetes/stored-object.ts";
import type { Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";

const ADVICE =
  "give both shards the same file in --encryption-provider-config, let them write these objects anew, then start again";

/** What rehome itself reads in the store. */
const READ = [
  "apiextensions.k8s.io/customresourcedefinitions",
  "apis.kcp.io/apibindings",
  "core.kcp.io/logicalclusters",
  "tenancy.kcp.io/workspaces",
];

/** @throws ApplicationFailure `Refused` for an object that rehome must read and cannot. */
export function refuseEncrypted({ name, store }: Pick<Shard, "name" | "store">, { key, value }: Entry): void {
  const encryption = encryptionOf(value);
  if (encryption === undefined) return;
  throw failure("Refused", {
    message: `shard ${name} encrypts objects that rehome has to read in its store`,
    site: store.name,
    found: `${displayKey(key)}: ${encryption}`,
    advice: `leave ${READ.map((family) => family.split("/").toReversed().join(".")).join(", ")} out of --encryption-provider-config`,
  });
}

/** Whose keys the configuration names and does not hold. */
const KMS = "k8s:enc:kms:";

/**
 * Values are copied as they are stored, so the destination must be able to read what the origin has encrypted. A shard
 * that cannot read one Secret can list no tenant's Secrets any more, so a key that has nothing but its name in common
 * with the origin's must be found before the copy, and before a user makes the first Secret. So configurations are
 * compared; where a shard does not tell of its own, one value of each resource.
 *
 * @returns a warning where the keys cannot be compared.
 * @throws ApplicationFailure `Refused`
 */
export async function checkEncryption(
  from: Shard,
  to: Shard,
  ranges: readonly ClusterRange[],
): Promise<string[]> {
  const [left, right] = await Promise.all([from, to].map(configurationOf));
  const isKnown = left !== undefined && right !== undefined;
  if (isKnown && left !== right) {
    throw failure("Refused", {
      message: "the two shards do not encrypt by the same configuration",
      found: `${left} at ${from.name}, ${right} at ${to.name}`,
      advice: ADVICE,
    });
  }
  const kinds = await Promise.all(ranges.map(async (range) => await compare(from, to, range)));
  const unlike = kinds.find(({ ours, theirs }) => ours !== theirs);
  if (unlike && !isKnown) {
    const { family, ours = "not encrypted", theirs = "not encrypted" } = unlike;
    throw failure("Refused", {
      message: `${family} are stored differently at the two shards`,
      found: `${ours} at ${from.name}, ${theirs} at ${to.name}`,
      advice: ADVICE,
    });
  }
  if (!isKnown && left === right && kinds.every(({ ours }) => ours === undefined)) return [];
  const isDoubtful = !isKnown || kinds.some(({ ours }) => ours?.startsWith(KMS));
  return isDoubtful
    ? [
        `whether ${from.name} and ${to.name} encrypt by the same keys cannot be seen from here: make sure that they do`,
      ]
    : [];
}

/** How a family of the cluster is encrypted at the origin, and, of any cluster, at the destination. */
async function compare(from: Shard, to: Shard, range: ClusterRange) {
  const { family } = range;
  const entry = await sample(from.store, range);
  if (entry && isOneOf(READ, family)) refuseEncrypted(from, entry);
  const ours = entry && encryptionOf(entry.value);
  // A look at all clusters of a large shard costs it something: of what is stored plainly only Secrets are worth it.
  if (ours === undefined && family !== SECRETS) return { family, ours, theirs: undefined };
  const other = await sample(to.store, prefixRange(`${to.store.prefix}/${family}/`));
  return { family, ours, theirs: other && encryptionOf(other.value) };
}

/** The same for two shards that have the same keys; undefined where they do not tell. */
async function configurationOf({ name, replicas }: Shard): Promise<string | undefined> {
  const hashes = new Set(await Promise.all(replicas.map(encryptionConfigHash)));
  if (hashes.has(undefined)) return undefined;
  const [first, second] = hashes;
  if (second === undefined) return first;
  throw failure("Refused", {
    message: `the replicas of shard ${name} do not encrypt by the same configuration`,
    found: `${first}, ${second}`,
    advice: "restart the replica that has not read the newer file yet",
  });
}

async function sample(store: Store, range: KeyRange): Promise<Entry | undefined> {
  return (await store.read(range, { limit: 1 })).entries[0];
}
