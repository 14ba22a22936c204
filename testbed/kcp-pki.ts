import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { CertificateAuthority } from "./certificates.ts";
import type { CertificateFiles, ClientTls } from "./certificates.ts";
import type { KcpPorts } from "./kcp-servers.ts";
import { writeKubeconfig } from "./kubeconfig.ts";

/**
 * Certificates of a sharded kcp. Which certificate must be signed by which
 * authority, and its user and groups, is as in kcp's own sharded-test-server.
 */
export interface KcpPki {
  /** Signs what the servers show; all clients trust it. */
  readonly servingCa: string;
  /** Signs clients of shards, cache server and front-proxy. */
  readonly clientCa: string;
  /** Signs those who may speak in another user's name by request headers. */
  readonly requestHeaderCa: string;
  readonly cacheServing: CertificateFiles;
  readonly frontProxyServing: CertificateFiles;
  readonly shardServing: ReadonlyMap<string, CertificateFiles>;
  /** What each shard shows to other shards and the cache server. */
  readonly shardClient: ReadonlyMap<string, CertificateFiles>;
  readonly cacheClient: CertificateFiles;
  readonly kcpAdmin: CertificateFiles;
  /** A member of `system:masters`: everything on a shard, but dropped by the front-proxy. */
  readonly shardAdmin: CertificateFiles;
  readonly logicalClusterAdmin: CertificateFiles;
  readonly externalLogicalClusterAdmin: CertificateFiles;
  /** What the front-proxy shows to shards. */
  readonly requestHeader: CertificateFiles;
  readonly mountsProxy: CertificateFiles;
  /** Private key that signs service account tokens, and the public one that checks them. */
  readonly serviceAccount: { readonly privateKey: string; readonly publicKey: string };
  /** An EncryptionConfiguration of each shard, for Secrets. */
  readonly encryption: ReadonlyMap<string, string>;
}

/**
 * Makes all certificates and keys of a topology with these shards, in one folder.
 * @param oneKey all shards encrypt by the same key; otherwise by keys that are only called the same.
 */
export async function makePki(folder: string, shards: readonly string[], oneKey: boolean): Promise<KcpPki> {
  await mkdir(folder, { recursive: true });
  const [serving, client, requestHeader] = await Promise.all([
    CertificateAuthority.create(join(folder, "serving"), "serving-ca"),
    CertificateAuthority.create(join(folder, "client"), "client-ca"),
    CertificateAuthority.create(join(folder, "request-header"), "request-header-ca"),
  ]);
  return {
    servingCa: serving.file,
    clientCa: client.file,
    requestHeaderCa: requestHeader.file,
    cacheServing: await serving.issue("cache-server"),
    frontProxyServing: await serving.issue("front-proxy"),
    shardServing: await forEachShard(shards, (name) => serving.issue(`shard-${name}`)),
    shardClient: await forEachShard(shards, (name) => client.issue(`kcp-shard-${name}`, ["system:masters"])),
    cacheClient: await client.issue("cache-client", ["system:masters"]),
    kcpAdmin: await client.issue("kcp-admin", ["system:kcp:admin"]),
    shardAdmin: await client.issue("shard-admin", ["system:masters"]),
    logicalClusterAdmin: await client.issue("logical-cluster-admin", ["system:kcp:logical-cluster-admin"]),
    externalLogicalClusterAdmin: await client.issue("external-logical-cluster-admin", [
      "system:kcp:external-logical-cluster-admin",
    ]),
    requestHeader: await requestHeader.issue("kcp-front-proxy"),
    mountsProxy: await requestHeader.issue("kcp-mounts-proxy"),
    serviceAccount: await makeServiceAccountKeys(folder),
    encryption: await makeEncryption(folder, shards, oneKey),
  };
}

export interface KcpKubeconfigs {
  readonly frontProxy: string;
  readonly shards: ReadonlyMap<string, string>;
  readonly cache: string;
  readonly logicalClusterAdmin: string;
  readonly externalLogicalClusterAdmin: string;
  /** For the front-proxy: credentials for every shard, without an address. */
  readonly anyShard: string;
}

/** Writes the kubeconfigs of operators (into `workDir`) and of the servers among themselves (into `workDir/pki`). */
export async function writeKubeconfigs(
  workDir: string,
  pki: KcpPki,
  shards: readonly string[],
  ports: KcpPorts,
): Promise<KcpKubeconfigs> {
  const own = join(workDir, "pki");
  const frontProxy = `https://127.0.0.1:${ports.frontProxy}`;
  const shardUrl = (name: string) => `https://127.0.0.1:${ports.shards.get(name)}`;
  const tls = (files: CertificateFiles): ClientTls => ({ ca: pki.servingCa, ...files });
  const base = (file: string, server: string | undefined, files: CertificateFiles) =>
    writeKubeconfig(file, { base: server }, tls(files));
  return {
    frontProxy: await writeKubeconfig(
      join(workDir, "front-proxy.kubeconfig"),
      { base: frontProxy, root: `${frontProxy}/clusters/root` },
      tls(pki.kcpAdmin),
    ),
    shards: await forEachShard(shards, (name) =>
      writeKubeconfig(
        join(workDir, `${name}.kubeconfig`),
        // kcp itself looks for `shard-base` in the root shard's kubeconfig.
        { base: shardUrl(name), "shard-base": shardUrl(name) },
        tls(pki.shardAdmin),
      ),
    ),
    cache: await base(join(own, "cache.kubeconfig"), `https://127.0.0.1:${ports.cache}`, pki.cacheClient),
    logicalClusterAdmin: await base(
      join(own, "logical-cluster-admin.kubeconfig"),
      shardUrl("root"),
      pki.logicalClusterAdmin,
    ),
    externalLogicalClusterAdmin: await base(
      join(own, "external-logical-cluster-admin.kubeconfig"),
      frontProxy,
      pki.externalLogicalClusterAdmin,
    ),
    anyShard: await base(join(own, "any-shard.kubeconfig"), undefined, pki.shardAdmin),
  };
}

async function forEachShard<T>(
  shards: readonly string[],
  make: (name: string) => Promise<T>,
): Promise<ReadonlyMap<string, T>> {
  return new Map(await Promise.all(shards.map(async (name) => [name, await make(name)] as const)));
}

async function makeServiceAccountKeys(folder: string): Promise<KcpPki["serviceAccount"]> {
  const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const files = {
    privateKey: join(folder, "service-account.key"),
    publicKey: join(folder, "service-account.pub"),
  };
  await writeFile(files.privateKey, pair.privateKey.export({ type: "pkcs8", format: "pem" }), {
    mode: 0o600,
  });
  await writeFile(files.publicKey, pair.publicKey.export({ type: "spki", format: "pem" }));
  return files;
}

/** As in production, with the secretbox provider. */
async function makeEncryption(
  folder: string,
  shards: readonly string[],
  oneKey: boolean,
): Promise<KcpPki["encryption"]> {
  const shared = randomBytes(32);
  return await forEachShard(shards, async (name) => {
    const file = join(folder, `encryption-${name}.yaml`);
    const secret = (oneKey ? shared : randomBytes(32)).toString("base64");
    const secretbox = { keys: [{ name: "key1", secret }] };
    const configuration = {
      apiVersion: "apiserver.config.k8s.io/v1",
      kind: "EncryptionConfiguration",
      resources: [{ resources: ["secrets"], providers: [{ secretbox }, { identity: {} }] }],
    };
    await writeFile(file, stringify(configuration), { mode: 0o600 });
    return file;
  });
}
