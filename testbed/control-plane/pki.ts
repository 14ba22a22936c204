import { generateKeyPairSync, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { CertificateAuthority } from "../certificates.ts";
import type { CertificateFiles, ClientTls } from "../certificates.ts";
import { writeKubeconfig } from "../kubeconfig.ts";
import { apiServerName, etcdNames, seedNamespace } from "./names.ts";

/** Texts of a Secret by key, not yet in base64. */
export type SecretTexts = Readonly<Record<string, string>>;

export interface ControlPlanePki {
  /** What the moved cluster's administrator shows: a member of `system:masters`. */
  readonly admin: ClientTls;
  /** Secrets of the control plane in its seed, by name. */
  readonly secrets: ReadonlyMap<string, SecretTexts>;
  /** Secret of the VPN clients in the moved cluster. */
  readonly vpnShoot: SecretTexts;
}

interface Authorities {
  readonly etcd: CertificateAuthority;
  readonly peer: CertificateAuthority;
  readonly cluster: CertificateAuthority;
  readonly client: CertificateAuthority;
  readonly vpn: CertificateAuthority;
}

/**
 * Makes all keys and certificates of one control plane.
 * @param folder where the PEM files are kept
 * @param addresses every address at which a Service of the control plane can
 *   be reached, in any seed: certificates must hold before and after a move
 */
export async function makeControlPlanePki(
  folder: string,
  addresses: readonly string[],
): Promise<ControlPlanePki> {
  const authorities = await makeAuthorities(folder);
  const { cluster, client } = authorities;
  const vpn = await makeVpnSecrets(authorities.vpn);
  return {
    admin: { ca: cluster.file, ...(await client.issue("admin", ["system:masters"])) },
    secrets: new Map([
      ...(await etcdSecrets(authorities, addresses)),
      ["kube-apiserver", await apiServerSecret(authorities, addresses)],
      ["kube-controller-manager", await controllerManagerSecret(folder, authorities)],
      ["vpn", vpn.seed],
    ]),
    vpnShoot: vpn.shoot,
  };
}

async function makeAuthorities(folder: string): Promise<Authorities> {
  const make = (name: string) => CertificateAuthority.create(join(folder, name), name);
  const [etcd, peer, cluster, client, vpn] = await Promise.all(
    (["ca-etcd", "ca-etcd-peer", "ca", "ca-client", "ca-vpn"] as const).map(make),
  );
  return { etcd, peer, cluster, client, vpn } as Authorities;
}

async function etcdSecrets(
  authorities: Authorities,
  addresses: readonly string[],
): Promise<Map<string, SecretTexts>> {
  const { etcd, peer } = authorities;
  const names = etcdNames.flatMap((name) => serviceNames(`${name}-client`));
  return new Map([
    ["ca-etcd", await authoritySecret(etcd)],
    ["ca-etcd-peer", await authoritySecret(peer)],
    // The member itself comes by way of 127.0.0.1 for its JSON gateway.
    [
      "etcd-server",
      await tlsSecret(etcd, await etcd.issue("etcd-server", [], [...names, ...addresses, "127.0.0.1"])),
    ],
    ["etcd-client", await tlsSecret(etcd, await etcd.issue("etcd-client"))],
    ["etcd-peer", await tlsSecret(peer, await peer.issue("etcd-peer", [], [...addresses, "127.0.0.1"]))],
  ]);
}

async function apiServerSecret(
  { cluster, client }: Authorities,
  addresses: readonly string[],
): Promise<SecretTexts> {
  const hosts = [apiServerName, ...serviceNames("kube-apiserver"), "localhost", "127.0.0.1", ...addresses];
  const serviceAccount = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return {
    ...(await tlsSecret(cluster, await cluster.issue("kube-apiserver", [], hosts))),
    "client-ca.crt": await readFile(client.file, "utf8"),
    "service-account.key": serviceAccount.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    "service-account.pub": serviceAccount.publicKey.export({ type: "spki", format: "pem" }).toString(),
    "encryption.yaml": encryptionConfiguration(),
  };
}

async function controllerManagerSecret(
  folder: string,
  { cluster, client }: Authorities,
): Promise<SecretTexts> {
  const tls = { ca: cluster.file, ...(await client.issue("system:kube-controller-manager")) };
  // Without a server: its address is another one in each seed.
  const file = await writeKubeconfig(
    join(folder, "kube-controller-manager.kubeconfig"),
    { default: undefined },
    tls,
  );
  return { kubeconfig: await readFile(file, "utf8") };
}

/** Secrets are unreadable in etcd without this key: a move that forgets it breaks the cluster. */
function encryptionConfiguration(): string {
  return stringify({
    apiVersion: "apiserver.config.k8s.io/v1",
    kind: "EncryptionConfiguration",
    resources: [
      {
        resources: ["secrets"],
        providers: [
          { secretbox: { keys: [{ name: "key1", secret: randomBytes(32).toString("base64") }] } },
          { identity: {} },
        ],
      },
    ],
  });
}

async function makeVpnSecrets(vpn: CertificateAuthority): Promise<{ seed: SecretTexts; shoot: SecretTexts }> {
  const [server, client] = [await vpn.issue("vpn-seed-server"), await vpn.issue("vpn-shoot-client")];
  const shared = { "vpn.tlsauth": openVpnStaticKey() };
  return {
    seed: { ...(await tlsSecret(vpn, server)), ...shared },
    shoot: { ...(await tlsSecret(vpn, client)), ...shared },
  };
}

/** A key file as `openvpn --genkey secret` writes it: 256 random octets. */
function openVpnStaticKey(): string {
  const lines = randomBytes(256).toString("hex").match(/.{32}/g) ?? [];
  return ["-----BEGIN OpenVPN Static key V1-----", ...lines, "-----END OpenVPN Static key V1-----", ""].join(
    "\n",
  );
}

async function authoritySecret(authority: CertificateAuthority): Promise<SecretTexts> {
  return { "ca.crt": await readFile(authority.file, "utf8"), "ca.key": await authority.privateKeyPem() };
}

async function tlsSecret(authority: CertificateAuthority, files: CertificateFiles): Promise<SecretTexts> {
  const [ca, cert, key] = await Promise.all(
    [authority.file, files.cert, files.key].map((file) => readFile(file, "utf8")),
  );
  return { "ca.crt": ca as string, "tls.crt": cert as string, "tls.key": key as string };
}

function serviceNames(service: string): string[] {
  return [service, `${service}.${seedNamespace}.svc`, `${service}.${seedNamespace}.svc.cluster.local`];
}
