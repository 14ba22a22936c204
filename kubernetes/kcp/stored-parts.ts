/** Built-in objects as API servers store them, `k8s\0` and then runtime.Unknown as protobuf, without some of their parts. */

const MAGIC = "k8s\0";
/** Field numbers (apimachinery, runtime and meta/v1 generated.proto); `metadata` is the first field of every kind. */
const RAW = 2;
const METADATA = 1;
const ANNOTATIONS = 12;
const MANAGED_FIELDS = 17;
const MAP_KEY = 1;
/** core/v1 generated.proto. */
const SECRET = { data: 2, type: 3 };
const TOKEN_TYPE = "kubernetes.io/service-account-token";

interface Field {
  readonly number: number;
  /** The whole field, tag included. */
  readonly bytes: Buffer;
  /** Of a length-delimited field. */
  readonly content: Buffer;
}

/**
 * A stored object without one annotation and without managed fields, for comparing it with another.
 * @returns undefined for a value that is stored in another way, such as encrypted.
 */
export function withoutAnnotation(value: Buffer, annotation: string): string | undefined {
  return without(
    value,
    () => false,
    ({ number, content }) => number === ANNOTATIONS && keyOf(content) === annotation,
  );
}

/**
 * A stored Secret that holds a service account's token, without the certificate authority that is kept beside it.
 * @returns undefined for other Secrets, and for a value that is stored in another way.
 */
export function tokenWithoutAuthority(value: Buffer): string | undefined {
  const isToken = objectOf(value)?.some(
    ({ number, content }) => number === SECRET.type && content.toString() === TOKEN_TYPE,
  );
  if (!isToken) return undefined;
  return without(
    value,
    ({ number, content }) => number === SECRET.data && keyOf(content) === "ca.crt",
    () => false,
  );
}

type Choice = (field: Field) => boolean;

/** What is left when fields of the object and of its metadata are left out, and its managed fields. */
function without(value: Buffer, ofObject: Choice, ofMetadata: Choice): string | undefined {
  const left = objectOf(value)?.flatMap((field) => {
    if (field.number !== METADATA) return ofObject(field) ? [] : [field];
    const metadata = fieldsOf(field.content);
    return metadata.filter((part) => part.number !== MANAGED_FIELDS && !ofMetadata(part));
  });
  return left?.map(({ bytes }) => bytes.toString("base64")).join(" ");
}

function objectOf(value: Buffer): Field[] | undefined {
  if (value.toString("latin1", 0, MAGIC.length) !== MAGIC) return undefined;
  const raw = fieldsOf(value.subarray(MAGIC.length)).find(({ number }) => number === RAW);
  return raw && fieldsOf(raw.content);
}

function keyOf(mapEntry: Buffer): string | undefined {
  return fieldsOf(mapEntry)
    .find(({ number }) => number === MAP_KEY)
    ?.content.toString();
}

function fieldsOf(message: Buffer): Field[] {
  const found: Field[] = [];
  let at = 0;
  const varint = (): number => {
    let result = 0;
    for (let scale = 1; at < message.length; scale *= 128) {
      const byte = message[at++]!;
      result += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
    }
    return result;
  };
  while (at < message.length) {
    const start = at;
    const tag = varint();
    const wire = tag % 8;
    let content = start;
    if (wire === 2) {
      const length = varint();
      content = at;
      at += length;
    } else if (wire === 0) varint();
    else at += wire === 1 ? 8 : 4;
    found.push({
      number: Math.floor(tag / 8),
      bytes: message.subarray(start, at),
      content: message.subarray(content, at),
    });
  }
  return found;
}
