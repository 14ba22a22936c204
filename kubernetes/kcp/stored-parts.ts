/** Built-in objects as API servers store them, `k8s\0` and then runtime.Unknown as protobuf, without some of their parts. */

import { fieldsOf } from "../protobuf-fields.ts";
import type { Field } from "../protobuf-fields.ts";

const MAGIC = "k8s\0";
/** Field numbers (apimachinery, runtime and meta/v1 generated.proto); `metadata` is the first field of every kind. */
const RAW = 2;
const METADATA = 1;
const ANNOTATIONS = 12;
const MANAGED_FIELDS = 17;
const MAP_KEY = 1;
/** core/v1 generated.proto. */
const SECRET = { data: 2, type: 3 };
const QUOTA = { status: 3 };
export const TOKEN_TYPE = "kubernetes.io/service-account-token";

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

/**
 * A stored ResourceQuota without what is counted of it.
 * @returns undefined for a value that is stored in another way.
 */
export function quotaWithoutStatus(value: Buffer): string | undefined {
  return without(
    value,
    ({ number }) => number === QUOTA.status,
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
