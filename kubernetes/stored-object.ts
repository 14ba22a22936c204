/**
 * Reads the little that a move must know of objects as API servers store them: JSON (custom resources) or protobuf
 * (built-in resources: the magic `k8s\0`, then runtime.Unknown; apimachinery, pkg/runtime/serializer/protobuf).
 */

const MAGIC = Buffer.from("k8s\0");
const ENCRYPTED = "k8s:enc:";
const OWNER_REFERENCES = Buffer.from('"ownerReferences"');

/** Field numbers: runtime.Unknown {1 typeMeta, 2 raw}, every kind {1 metadata}, ObjectMeta {13 ownerReferences}. */
const UNKNOWN = { typeMeta: 1, raw: 2 };
const METADATA = 1;
const OWNERS = 13;

/** `apiVersion` and `kind` of a stored object; undefined when it cannot be read, e.g. because it is encrypted. */
export function typeOf(value: Buffer): { apiVersion: string; kind: string } | undefined {
  try {
    if (!value.subarray(0, 4).equals(MAGIC)) {
      const { apiVersion, kind } = JSON.parse(value.toString()) as { apiVersion?: unknown; kind?: unknown };
      return typeof apiVersion === "string" && typeof kind === "string" ? { apiVersion, kind } : undefined;
    }
    const typeMeta = field(value.subarray(4), UNKNOWN.typeMeta);
    const apiVersion = typeMeta && field(typeMeta, 1)?.toString();
    const kind = typeMeta && field(typeMeta, 2)?.toString();
    return apiVersion && kind ? { apiVersion, kind } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the object names owners. May answer true for an object that only mentions the word; never false wrongly. */
export function hasOwners(value: Buffer): boolean {
  if (!value.subarray(0, 4).equals(MAGIC)) return value.includes(OWNER_REFERENCES);
  const raw = field(value.subarray(4), UNKNOWN.raw);
  const metadata = raw && field(raw, METADATA);
  return metadata !== undefined && field(metadata, OWNERS) !== undefined;
}

/** The encryption that a value was stored with, e.g. `k8s:enc:aescbc:v1:key1`; undefined for plain values. */
export function encryptionOf(value: Buffer): string | undefined {
  if (!value.subarray(0, ENCRYPTED.length).equals(Buffer.from(ENCRYPTED))) return undefined;
  return value.subarray(0, 200).toString("latin1").split(":").slice(0, 5).join(":");
}

/** The first length-delimited field with this number in a protobuf message; undefined when there is none. */
function field(message: Buffer, number: number): Buffer | undefined {
  let at = 0;
  const varint = (): number => {
    let result = 0;
    for (let shift = 1; at < message.length; shift *= 128) {
      const byte = message[at++]!;
      result += (byte & 0x7f) * shift;
      if (byte < 0x80) break;
    }
    return result;
  };
  while (at < message.length) {
    const tag = varint();
    const wire = tag % 8;
    if (wire === 2) {
      const length = varint();
      if (Math.floor(tag / 8) === number) return message.subarray(at, at + length);
      at += length;
    } else if (wire === 0) varint();
    else at += wire === 1 ? 8 : 4;
  }
  return undefined;
}
