import { displayKey } from "../../etcd/keys.ts";
import { rangesOf } from "../../etcd/scan.ts";
import type { Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";

/** etcd's words for a request above `--max-request-bytes`, 1.5 MiB where it is not set (api/v3rpc/rpctypes). */
const TOO_LARGE = "request is too large";
/** Objects below this are not what etcd meant. */
const LARGE_BYTES = 1 << 20;
const SAMPLES = 5;

/**
 * Tells which object it was when etcd refuses a transaction for its size. A move's transaction holds its token beside
 * the object and is some hundred bytes larger than the one by which an API server wrote it, and the destination's limit
 * may be a lower one; trying again cannot help.
 * @returns a failure `Refused`, or the error itself when it is another.
 */
export async function nameTooLarge(
  error: unknown,
  { from, to, cluster }: { readonly from: Shard; readonly to: Shard; readonly cluster: string },
): Promise<unknown> {
  if (!(error instanceof Error && error.message.includes(TOO_LARGE))) return error;
  const large: { key: string; bytes: number }[] = [];
  for (const range of await rangesOf(from.store, cluster)) {
    for await (const page of from.store.pages(range)) {
      for (const { key, value } of page)
        if (value.length >= LARGE_BYTES) large.push({ key, bytes: value.length });
    }
  }
  const largest = large.toSorted((a, b) => b.bytes - a.bytes).slice(0, SAMPLES);
  return failure("Refused", {
    message: `an object of ${cluster} is too large for the etcd of ${to.name}`,
    site: to.store.name,
    found: largest.map(({ key, bytes }) => `${displayKey(key)} (${bytes} bytes)`).join(", "),
    advice: `make it smaller, or raise --max-request-bytes of the etcd of ${to.name} by 1000`,
  });
}
