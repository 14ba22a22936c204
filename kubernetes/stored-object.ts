/**
 * Reads the little that a move must know of objects as API servers store them: JSON (custom resources) or protobuf
 * (built-in resources: the magic `k8s\0`, then runtime.Unknown; apimachinery, pkg/runtime/serializer/protobuf).
 */

import { fieldsOf } from "./protobuf-fields.ts";

const MAGIC = Buffer.from("k8s\0");
const ENCRYPTED = Buffer.from("k8s:enc:");
const OWNER_REFERENCES = Buffer.from('"ownerReferences"');
const DELETION_TIMESTAMP = Buffer.from('"deletionTimestamp"');

/** Field numbers (apimachinery, runtime and meta/v1 generated.proto); `metadata` is the first field of every kind. */
const UNKNOWN = { typeMeta: 1, raw: 2 };
const METADATA = 1;
const OBJECT_META = { uid: 5, deletionTimestamp: 9, owners: 13 };
const OWNER = { kind: 1, name: 3, uid: 4, apiVersion: 5 };

export interface Owner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** `apiVersion` and `kind` of a stored object; undefined when it cannot be read, e.g. because it is encrypted. */
export function typeOf(value: Buffer): { apiVersion: string; kind: string } | undefined {
  try {
    if (!value.subarray(0, 4).equals(MAGIC)) {
      const { apiVersion, kind } = JSON.parse(value.toString()) as { apiVersion?: unknown; kind?: unknown };
      return typeof apiVersion === "string" && typeof kind === "string" ? { apiVersion, kind } : undefined;
    }
    const typeMeta = first(value.subarray(4), UNKNOWN.typeMeta);
    const apiVersion = typeMeta && first(typeMeta, 1)?.toString();
    const kind = typeMeta && first(typeMeta, 2)?.toString();
    return apiVersion && kind ? { apiVersion, kind } : undefined;
  } catch {
    return undefined;
  }
}

/** The object's own uid and those of its owners; undefined for an object without owners, "hidden" for an encrypted one. */
export function kinshipOf(value: Buffer): { uid: string; owners: string[] } | "hidden" | undefined {
  if (encryptionOf(value) !== undefined) return "hidden";
  const { uid, owners } = ownedIn(value);
  return owners.length > 0 ? { uid, owners: owners.map((owner) => owner.uid) } : undefined;
}

/** The owners of an object, as far as it shows them: an encrypted one has none. */
export function ownersOf(value: Buffer): Owner[] {
  return encryptionOf(value) === undefined ? ownedIn(value).owners : [];
}

function ownedIn(value: Buffer): { uid: string; owners: Owner[] } {
  if (value.subarray(0, 4).equals(MAGIC)) return ownedInProtobuf(value.subarray(4));
  // Most objects have no owners, and parsing is dear: look for the word first.
  if (!value.includes(OWNER_REFERENCES)) return { uid: "", owners: [] };
  const { metadata } = parseJson(value) as {
    metadata?: { uid?: string; ownerReferences?: Partial<Owner>[] };
  };
  const owners = (metadata?.ownerReferences ?? []).map(
    ({ apiVersion = "", kind = "", name = "", uid = "" }) => ({ apiVersion, kind, name, uid }),
  );
  return { uid: metadata?.uid ?? "", owners };
}

/** Whether an object can be read, and nobody has begun to delete it. One that only speaks of that in JSON counts as begun. */
export function isPlain(value: Buffer): boolean {
  if (!value.subarray(0, 4).equals(MAGIC)) {
    return encryptionOf(value) === undefined && !value.includes(DELETION_TIMESTAMP);
  }
  const metadata = metadataIn(value.subarray(4));
  return metadata !== undefined && first(metadata, OBJECT_META.deletionTimestamp) === undefined;
}

function metadataIn(unknown: Buffer): Buffer | undefined {
  const raw = first(unknown, UNKNOWN.raw);
  return raw && first(raw, METADATA);
}

function ownedInProtobuf(unknown: Buffer): { uid: string; owners: Owner[] } {
  const metadata = metadataIn(unknown);
  if (!metadata) return { uid: "", owners: [] };
  const fields = fieldsOf(metadata);
  const owners = fields
    .filter(({ number }) => number === OBJECT_META.owners)
    .map(({ content }) => ({
      apiVersion: text(content, OWNER.apiVersion),
      kind: text(content, OWNER.kind),
      name: text(content, OWNER.name),
      uid: text(content, OWNER.uid),
    }));
  const uid = fields.find(({ number }) => number === OBJECT_META.uid);
  return { uid: uid?.content.toString() ?? "", owners };
}

function parseJson(value: Buffer): object {
  try {
    const parsed: unknown = JSON.parse(value.toString());
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}

/** The encryption that a value was stored with, e.g. `k8s:enc:aescbc:v1:key1`; undefined for plain values. */
export function encryptionOf(value: Buffer): string | undefined {
  if (!value.subarray(0, ENCRYPTED.length).equals(ENCRYPTED)) return undefined;
  return value.subarray(0, 200).toString("latin1").split(":").slice(0, 5).join(":");
}

function text(message: Buffer, number: number): string {
  return first(message, number)?.toString() ?? "";
}

function first(message: Buffer, number: number): Buffer | undefined {
  return fieldsOf(message).find((field) => field.number === number)?.content;
}
