import { createHash } from "node:crypto";
import type { KubeObject } from "../kubernetes/objects.ts";

/**
 * Compares the Secrets of a control plane with their copies, by name, type and contents. Copies of Secrets that the source
 * has no more harm nobody, and do not count.
 * @param where - between which seeds, for the error
 * @returns the digest of both: hex, so that a history may show it
 * @throws when they differ: something has changed since it was copied
 */
export function requireSameSecrets(
  source: readonly KubeObject[],
  copies: readonly KubeObject[],
  where: string,
): string {
  const names = new Set(source.map(({ metadata }) => metadata.name));
  const known = copies.filter(({ metadata }) => names.has(metadata.name));
  const digest = digestOf(source);
  if (digest === digestOf(known)) return digest;
  throw new Error(`the Secrets differ ${where}: ${source.length} and ${known.length} of them`);
}

function digestOf(secrets: readonly KubeObject[]): string {
  const contents = secrets.map((secret) => {
    const { metadata, data = {}, type } = secret as KubeObject & { data?: object; type?: string };
    const sorted = Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1));
    return JSON.stringify([metadata.name, type, sorted]);
  });
  return createHash("sha256").update(contents.toSorted().join("\n")).digest("hex");
}
