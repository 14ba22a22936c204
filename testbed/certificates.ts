// The certificate library's dependency injection needs this first, and for its effect only.
// oxlint-disable-next-line import/no-unassigned-import
import "reflect-metadata";
import { webcrypto } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import type { JsonName, X509Certificate } from "@peculiar/x509";

/** PEM files of a certificate and its private key. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

/** What a TLS client needs: its own certificate, and the authority of the server's. */
export interface ClientTls extends CertificateFiles {
  readonly ca: string;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const validForMs = 365 * 24 * 3_600_000;
/** Clocks of machines differ: a certificate must not be "not yet valid" for a peer. */
const backdatedByMs = 3_600_000;

/** A certificate authority of the test bed. Its key lives in memory and in the folder of the test bed only. */
export class CertificateAuthority {
  /** PEM file of the authority's own certificate. */
  readonly file: string;
  readonly #folder: string;
  readonly #certificate: X509Certificate;
  readonly #keys: webcrypto.CryptoKeyPair;

  private constructor(
    folder: string,
    file: string,
    certificate: X509Certificate,
    keys: webcrypto.CryptoKeyPair,
  ) {
    this.#folder = folder;
    this.file = file;
    this.#certificate = certificate;
    this.#keys = keys;
  }

  /** Makes a new authority and writes `<folder>/<name>.crt`. */
  static async create(folder: string, name: string): Promise<CertificateAuthority> {
    await mkdir(folder, { recursive: true });
    const keys = await generateKeys();
    const certificate = await X509CertificateGenerator.createSelfSigned({
      name: subject(name, []),
      keys,
      ...validity(),
      signingAlgorithm: algorithm,
      extensions: [
        new BasicConstraintsExtension(true, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.digitalSignature, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    const file = join(folder, `${name}.crt`);
    await writeFile(file, certificate.toString("pem"));
    return new CertificateAuthority(folder, file, certificate, keys);
  }

  /** The authority's private key, where it must be handed on, as PEM text. */
  async privateKeyPem(): Promise<string> {
    return await privateKeyPem(this.#keys.privateKey);
  }

  /**
   * Issues a certificate for TLS servers on these hosts (DNS names and IP
   * addresses; default `localhost` and 127.0.0.1) and for TLS clients;
   * Kubernetes API servers read the common name as user name and the
   * organizations as groups. Writes `<folder>/<name>.crt` and `.key`.
   */
  async issue(
    name: string,
    organizations: readonly string[] = [],
    hosts: readonly string[] = ["localhost", "127.0.0.1"],
  ): Promise<CertificateFiles> {
    const keys = await generateKeys();
    const certificate = await X509CertificateGenerator.create({
      subject: subject(name, organizations),
      issuer: this.#certificate.subject,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      ...validity(),
      signingAlgorithm: algorithm,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
        new SubjectAlternativeNameExtension(
          hosts.map((value) => ({ type: isIP(value) === 0 ? "dns" : "ip", value })),
        ),
        await AuthorityKeyIdentifierExtension.create(this.#certificate.publicKey),
      ],
    });
    const files = { cert: join(this.#folder, `${name}.crt`), key: join(this.#folder, `${name}.key`) };
    await writeFile(files.cert, certificate.toString("pem"));
    await writeFile(files.key, await privateKeyPem(keys.privateKey), { mode: 0o600 });
    return files;
  }
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
}

/**
 * Names as a list of parts, never as one string: a group like `system:masters`
 * needs no escaping then, and each organization is a part of its own.
 */
function subject(commonName: string, organizations: readonly string[]): JsonName {
  return [...organizations.map((name) => ({ O: [name] })), { CN: [commonName] }];
}

function validity(): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - backdatedByMs), notAfter: new Date(now + validForMs) };
}

async function privateKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  return PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", key), "PRIVATE KEY");
}
