import type { Difference } from "../../etcd/compare.ts";
import { SECRETS, parseKey } from "../../etcd/keys.ts";
import { allowedDifference } from "../../kubernetes/kcp/allowed.ts";
import { isSameToken, readTokens } from "../../kubernetes/kcp/encrypted.ts";
import type { Tokens } from "../../kubernetes/kcp/encrypted.ts";
import { encryptionOf } from "../../kubernetes/stored-object.ts";
import type { Shard } from "../../sites/kcp.ts";

/**
 * The rule that allows a difference between two shards, if any does. Of what is encrypted it judges service accounts'
 * tokens, which the destination writes anew: as both API servers serve them, since the first time that it is asked.
 */
export function allowedBetween({ from, to }: { readonly from: Shard; readonly to: Shard }) {
  let tokens: Promise<[Tokens, Tokens]> | undefined;
  return async (difference: Difference): Promise<string | undefined> => {
    const rule = allowedDifference(difference);
    if (rule !== undefined || !isEncrypted(difference.origin) || !isEncrypted(difference.destination))
      return rule;
    const { family, cluster = "", object = "" } = parseKey(from.store.prefix, difference.key) ?? {};
    if (family !== SECRETS) return undefined;
    tokens ??= Promise.all([readTokens(from.api, cluster), readTokens(to.api, cluster)]);
    const [ours, theirs] = await tokens;
    return isSameToken(ours.get(object), theirs.get(object))
      ? "the token of a service account is encrypted anew, with the certificate authority of the shard"
      : undefined;
  };
}

function isEncrypted(entry: Difference["origin"]): boolean {
  return entry !== undefined && encryptionOf(entry.value) !== undefined;
}
