import type { ApiServer } from "./api-server.ts";

/** Since Kubernetes v1.34 (apiserver, pkg/server/options/encryptionconfig/metrics): the hash of the file, key material included. */
const INFO = /^apiserver_encryption_config_controller_last_config_info\{.*\bhash="([^"]+)"/m;

/**
 * A hash of the EncryptionConfiguration that an API server works with: where it is the same, so are the keys.
 * @returns undefined when the server encrypts nothing, or does not tell.
 */
export async function encryptionConfigHash(server: ApiServer): Promise<string | undefined> {
  const { status, body } = await server.request({ path: "/metrics", timeoutMs: 30_000 });
  return status === 200 ? INFO.exec(body)?.[1] : undefined;
}
