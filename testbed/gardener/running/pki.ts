import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CertificateAuthority } from "../../certificates.ts";
import type { CertificateFiles, ClientTls } from "../../certificates.ts";
import { demo } from "../garden-objects.ts";
import { allAddresses, dnsNames, etcdNames, innerName } from "./places.ts";

export interface ControlPlanePki {
  readonly etcdServer: CertificateFiles;
  /** Clients of etcd: the authority of its servers, and a certificate of the same. */
  readonly etcdClient: ClientTls;
  readonly peerAuthority: string;
  readonly peer: CertificateFiles;
  readonly apiServer: CertificateFiles;
  readonly admin: ClientTls;
  readonly serviceAccounts: CertificateFiles;
  /** Contents of Secrets in the seed, by name and key. */
  readonly secrets: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Certificates that hold at every address that a member or API server has in either seed. */
export async function makePki(folder: string): Promise<ControlPlanePki> {
  const [etcd, peer, cluster] = await Promise.all(
    ["ca-etcd", "ca-etcd-peer", "ca"].map((name) => CertificateAuthority.create(join(folder, name), name)),
  );
  if (!etcd || !peer || !cluster) throw new Error("no authorities");
  const members = etcdNames.flatMap((name) => [0, 1, 2].map((ordinal) => ({ name, ordinal })));
  const inner = members.map(({ name, ordinal }) => innerName(name, ordinal));
  const services = etcdNames.map((name) => `${name}-client.${demo.namespace}.svc`);
  // Whoever connects within 127.0.0.0/8 comes from 127.0.0.1, and peers must show a certificate for that.
  const hosts = [...allAddresses(), "127.0.0.1"];
  const client = await etcd.issue("etcd-client");
  return {
    etcdServer: await etcd.issue("etcd-server", [], [...services, ...inner, ...hosts]),
    etcdClient: { ca: etcd.file, ...client },
    peerAuthority: peer.file,
    peer: await peer.issue("etcd-peer", [], [...inner, ...hosts]),
    apiServer: await cluster.issue("kube-apiserver", [], [...dnsNames, ...hosts]),
    admin: { ca: cluster.file, ...(await cluster.issue("admin", ["system:masters"])) },
    serviceAccounts: await cluster.issue("service-accounts"),
    secrets: {
      "ca-etcd": { "bundle.crt": await text(etcd.file) },
      "ca-etcd-peer": { "bundle.crt": await text(peer.file) },
      "etcd-client": { "tls.crt": await text(client.cert), "tls.key": await text(client.key) },
    },
  };
}

async function text(file: string): Promise<string> {
  return await readFile(file, "utf8");
}
