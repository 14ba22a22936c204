import type { Difference } from "../../etcd/compare.ts";
import { SECRETS, parseKey } from "../../etcd/keys.ts";
import { allowedDifference } from "../../kubernetes/kcp/allowed.ts";
import { differenceInSecret } from "../../kubernetes/kcp/encrypted.ts";
import { encryptionOf } from "../../kubernetes/stored-object.ts";
import type { Shard } from "../../sites/kcp.ts";

/** The rule that allows a difference between two shards, if any does. */
export function allowedBetween({ from, to }: { readonly from: Shard; readonly to: Shard }) {
  return async (difference: Difference): Promise<string | undefined> => {
    const { key, origin, destination } = difference;
    const rule = allowedDifference(difference);
    if (rule !== undefined || !isEncrypted(origin) || !isEncrypted(destination)) return rule;
    const { family, cluster = "", object = "" } = parseKey(from.store.prefix, key) ?? {};
    const [namespace = "", name = ""] = object.split("/");
    return family === SECRETS
      ? await differenceInSecret([from.api, to.api], { cluster, namespace, name })
      : undefined;
  };
}

function isEncrypted(entry: Difference["origin"]): boolean {
  return entry !== undefined && encryptionOf(entry.value) !== undefined;
}
