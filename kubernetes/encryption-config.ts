import type { ApiServer } from "./api-server.ts";

/** The hash of the file, key material included (apiserver, pkg/server/options/encryptionconfig/metrics). */
const INFO = /^apiserver_encryption_config_controller_last_config_info\{.*\bhash="([^"]+)"/m;
/** The minor version of Kubernetes since which it is told. */
const SINCE = 34;

/**
 * A hash of the EncryptionConfiguration that an API server works with: where it is the same, so are the keys.
 * @returns "none" when the server encrypts nothing; undefined when it does not tell.
 */
export async function encryptionConfigHash(server: ApiServer): Promise<string | undefined> {
  const { status, body } = await server.request({ path: "/metrics", timeoutMs: 30_000 });
  if (status !== 200) return undefined;
  const hash = INFO.exec(body)?.[1];
  if (hash !== undefined) return hash;
  const { minor } = await server.json<{ minor: string }>({ path: "/version" });
  return Number.parseInt(minor, 10) >= SINCE ? "none" : undefined;
}
