import { readFile, writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import type { ClientTls } from "./certificates.ts";

/**
 * Writes a kubeconfig that carries its certificates within, so that it can be
 * copied elsewhere.
 * @param contexts context name to server URL; the first one is current
 */
export async function writeKubeconfig(
  file: string,
  contexts: Readonly<Record<string, string | undefined>>,
  tls: ClientTls,
): Promise<string> {
  const names = Object.keys(contexts);
  const [ca, cert, key] = await Promise.all(
    [tls.ca, tls.cert, tls.key].map((path) => readFile(path, "base64")),
  );
  const content = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": names[0],
    clusters: Object.entries(contexts).map(([name, server]) => ({
      name,
      // The front-proxy wants a kubeconfig without a server: it adds each shard's address itself.
      cluster: { ...(server === undefined ? {} : { server }), "certificate-authority-data": ca },
    })),
    users: [{ name: "admin", user: { "client-certificate-data": cert, "client-key-data": key } }],
    contexts: names.map((name) => ({ name, context: { cluster: name, user: "admin" } })),
  };
  await writeFile(file, stringify(content), { mode: 0o600 });
  return file;
}
