import { createHmac, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Message, Request } from "./message.ts";
import { canonicalName } from "./names.ts";
import { encodeName, readName } from "./structure.ts";
import type { RawRecord } from "./structure.ts";

/** Signatures of messages with a shared secret, RFC 8945. Section numbers below are those of that document. */

const algorithms = { "hmac-sha256": "sha256", "hmac-sha384": "sha384", "hmac-sha512": "sha512" } as const;

export type TsigAlgorithm = keyof typeof algorithms;

export interface TsigKey {
  readonly name: string;
  readonly algorithm: TsigAlgorithm;
  readonly secret: Buffer;
}

/** Reads the secret, base64 on the file's only line. @throws Error that names the file, never what is in it */
export async function readTsigKey(reference: {
  readonly name: string;
  readonly algorithm: TsigAlgorithm;
  readonly secretFile: string;
}): Promise<TsigKey> {
  const { name, algorithm, secretFile } = reference;
  const text = (await readFile(secretFile, "utf8")).trim();
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4 !== 0)
    throw new Error(`${secretFile} does not hold one line of base64, as a TSIG secret is written`);
  return { name: canonicalName(name), algorithm, secret: Buffer.from(text, "base64") };
}

export interface SignedRequest extends Request {
  readonly mac: Buffer;
}

/** The names of the error codes in a signature (section 3). */
const errorNames = new Map([
  [16, "BADSIG"],
  [17, "BADKEY"],
  [18, "BADTIME"],
  [22, "BADTRUNC"],
] as const);

export type TsigError = "BADSIG" | "BADKEY" | "BADTIME" | "BADTRUNC";

/** How far clocks may differ, in seconds: what section 10 recommends. */
const fudgeSeconds = 300;
const typeTsig = 250;
const classAny = 255;
const additionalCountAt = 10;

interface Signature {
  readonly algorithm: string;
  readonly timeSigned: number;
  readonly fudge: number;
  readonly mac: Buffer;
  readonly originalId: number;
  readonly error: number;
  readonly other: Buffer;
}

/** Appends the signature of `key`, made at `now` (ms since the epoch). */
export function sign(request: Request, key: TsigKey, now: number): SignedRequest {
  const signature = {
    algorithm: key.algorithm,
    timeSigned: Math.floor(now / 1000),
    fudge: fudgeSeconds,
    originalId: request.id,
    error: 0,
    other: Buffer.alloc(0),
  };
  const mac = macOf(key, [request.bytes, variables(key, signature)]);
  const message = Buffer.from(request.bytes);
  message.writeUInt16BE(message.readUInt16BE(additionalCountAt) + 1, additionalCountAt);
  const data = Buffer.concat([
    encodeName(signature.algorithm),
    timeAndFudge(signature),
    uint16(mac.length),
    mac,
    uint16(request.id),
    uint16(0),
    uint16(0),
  ]);
  const record = [encodeName(key.name), recordHead(), uint16(data.length), data];
  return { id: request.id, bytes: Buffer.concat([message, ...record]), mac };
}

/** What the signature of an answer tells. `refused` is the server's own verdict on our signature. */
export type Verdict =
  | { readonly kind: "valid" }
  | { readonly kind: "refused"; readonly error: TsigError; readonly serverTime: number | undefined }
  | { readonly kind: "invalid"; readonly why: string };

/** Judges the answer to `request` at the time `now` (ms since the epoch), as section 5.3 demands of clients. */
export function verify(answer: Message, request: SignedRequest, key: TsigKey, now: number): Verdict {
  const last = answer.records.at(-1);
  if (last?.type !== typeTsig) return invalid("the answer is not signed");
  const signature = parse(last);
  if (signature === undefined) return invalid("the answer's signature is malformed");
  const error = errorNames.get(signature.error as 16);
  if (error !== undefined) return { kind: "refused", error, serverTime: serverTime(signature) };
  if (last.name !== key.name || signature.algorithm !== key.algorithm)
    return invalid("the answer is signed with another key");
  const unsigned = Buffer.from(answer.bytes.subarray(0, last.start));
  unsigned.writeUInt16BE(signature.originalId, 0);
  unsigned.writeUInt16BE(unsigned.readUInt16BE(additionalCountAt) - 1, additionalCountAt);
  const requestMac = [uint16(request.mac.length), request.mac];
  const expected = macOf(key, [...requestMac, unsigned, variables(key, signature)]);
  // A shortened signature is refused as well: we ask for a whole one.
  if (signature.mac.length !== expected.length || !timingSafeEqual(signature.mac, expected))
    return invalid("the answer's signature is wrong");
  if (Math.abs(now / 1000 - signature.timeSigned) > signature.fudge + 1)
    return invalid("the answer's signature is out of date");
  return { kind: "valid" };
}

function invalid(why: string): Verdict {
  return { kind: "invalid", why };
}

/** With BADTIME the server tells its own time, in seconds (section 5.2.3). */
function serverTime({ other }: Signature): number | undefined {
  return other.length === 6 ? other.readUIntBE(0, 6) : undefined;
}

/** Undefined when the record is not as section 4.2 has it. */
function parse({ class: recordClass, ttl, data }: RawRecord): Signature | undefined {
  if (recordClass !== classAny || ttl !== 0) return undefined;
  try {
    const { name: algorithm, end } = readName(data, 0);
    const macStart = end + 10;
    const macEnd = macStart + data.readUInt16BE(end + 8);
    const other = data.subarray(macEnd + 6);
    if (other.length !== data.readUInt16BE(macEnd + 4)) return undefined;
    return {
      algorithm,
      timeSigned: data.readUIntBE(end, 6),
      fudge: data.readUInt16BE(end + 6),
      mac: data.subarray(macStart, macEnd),
      originalId: data.readUInt16BE(macEnd),
      error: data.readUInt16BE(macEnd + 2),
      other,
    };
  } catch {
    return undefined;
  }
}

/** The fields of the signature that it covers itself (section 4.3.3). */
function variables(key: TsigKey, signature: Omit<Signature, "mac">): Buffer {
  const { algorithm, error, other } = signature;
  return Buffer.concat([
    encodeName(key.name),
    // Class and TTL, without the type.
    recordHead().subarray(2),
    encodeName(algorithm),
    timeAndFudge(signature),
    uint16(error),
    uint16(other.length),
    other,
  ]);
}

function recordHead(): Buffer {
  return Buffer.concat([uint16(typeTsig), uint16(classAny), Buffer.alloc(4)]);
}

function timeAndFudge({ timeSigned, fudge }: Pick<Signature, "timeSigned" | "fudge">): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUIntBE(timeSigned, 0, 6);
  bytes.writeUInt16BE(fudge, 6);
  return bytes;
}

function macOf(key: TsigKey, parts: readonly Buffer[]): Buffer {
  const hmac = createHmac(algorithms[key.algorithm], key.secret);
  for (const part of parts) hmac.update(part);
  return hmac.digest();
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}
