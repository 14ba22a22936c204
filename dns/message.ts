import { randomInt } from "node:crypto";
import dnsPacket from "dns-packet";
import type { Answer, Packet } from "dns-packet";
import { canonicalValues } from "./names.ts";
import type { AddressType } from "./names.ts";
import { recordsIn } from "./structure.ts";
import type { RawRecord } from "./structure.ts";

/** The wire format, by the library `dns-packet`; what that library leaves unchecked is checked here. */

/** The bytes are no message, or none that the standard allows. */
export class MalformedMessageError extends Error {
  override readonly name = "MalformedMessageError";
}

export interface Message {
  readonly bytes: Buffer;
  readonly id: number;
  readonly isResponse: boolean;
  /** Response code, e.g. `NOERROR`, `NXRRSET`. */
  readonly rcode: string;
  readonly authoritative: boolean;
  readonly truncated: boolean;
  /** The records of all sections, where a signature is the last. */
  readonly records: readonly RawRecord[];
}

/** A request and what its answer must match. */
export interface Request {
  readonly id: number;
  readonly bytes: Buffer;
}

export type QueryType = AddressType | "SOA";

const opcodeUpdate = 5 << 11;
const typeNumbers: Readonly<Record<AddressType, number>> = { A: 1, CNAME: 5, AAAA: 28 };
/** By number (RFC 6895 section 2.3). */
const rcodeNames = [
  "NOERROR",
  "FORMERR",
  "SERVFAIL",
  "NXDOMAIN",
  "NOTIMP",
  "REFUSED",
  "YXDOMAIN",
  "YXRRSET",
  "NXRRSET",
  "NOTAUTH",
  "NOTZONE",
];

/** One question, without recursion: the server shall answer from what it holds. */
export function encodeQuery(name: string, type: QueryType): Request {
  return encode({ flags: 0, questions: [{ name, type, class: "IN" }] });
}

export interface UpdateMessage {
  readonly zone: string;
  readonly name: string;
  readonly type: AddressType;
  /** The record set must exist with exactly these values (RFC 2136 section 2.4.2). */
  readonly from: readonly string[];
  /** Undefined: nothing changes, and the answer tells whether the sender could have changed it. */
  readonly to: { readonly values: readonly string[]; readonly ttlSeconds: number } | undefined;
}

/**
 * One update that replaces a record set: a server applies it as a whole, so nobody ever finds the name without the
 * record (RFC 2136 section 3.7).
 */
export function encodeUpdate({ zone, name, type, from, to }: UpdateMessage): Request {
  const record = (data: string, ttl: number): Answer => ({ name, type, class: "IN", ttl, data });
  // Without data, which the library can write for types that it does not know only (RFC 2136 section 2.5.2).
  const empty = { name, type: `UNKNOWN_${typeNumbers[type]}`, class: "ANY", ttl: 0, data: Buffer.alloc(0) };
  return encode({
    flags: opcodeUpdate,
    questions: [{ name: zone, type: "SOA", class: "IN" }],
    answers: from.map((value) => record(value, 0)),
    authorities:
      to === undefined
        ? []
        : [empty as unknown as Answer, ...to.values.map((value) => record(value, to.ttlSeconds))],
  });
}

function encode(packet: Packet): Request {
  const id = randomInt(0x1_0000);
  return { id, bytes: dnsPacket.encode({ ...packet, id, type: "query" }) };
}

/** Whether the sender left out what did not fit (TC). Such a message may end within a record. */
export function isTruncated(bytes: Buffer): boolean {
  return (bytes.readUInt8(2) & 0x02) !== 0;
}

/**
 * The header, and where the records are. What the records of a query's answer hold is read by {@link recordsOf}; the
 * answer to an update may repeat the update (RFC 2136 section 3.8), which tells nothing.
 * @throws MalformedMessageError
 */
export function decode(bytes: Buffer): Message {
  return readable(() => {
    const flags = bytes.readUInt16BE(2);
    return {
      bytes,
      id: bytes.readUInt16BE(0),
      isResponse: (flags & 0x8000) !== 0,
      rcode: rcodeNames[flags & 0xf] ?? `RCODE_${flags & 0xf}`,
      authoritative: (flags & dnsPacket.AUTHORITATIVE_ANSWER) !== 0,
      truncated: isTruncated(bytes),
      records: recordsIn(bytes),
    };
  });
}

/** The one question that a query's answer repeats. @throws MalformedMessageError */
export function questionOf({ bytes }: Message): { readonly name: string; readonly type: string } | undefined {
  return readable(() => {
    const [question, ...others] = dnsPacket.decode(bytes).questions ?? [];
    if (question === undefined || others.length > 0) return undefined;
    return { name: question.name.toLowerCase(), type: question.type };
  });
}

/**
 * Values of the name's own records of this type, canonical, and their lowest TTL in seconds (0 without any).
 * @throws MalformedMessageError
 */
export function recordsOf(message: Message, name: string, type: AddressType) {
  return readable(() => {
    const wrong = message.records.find((record) => record.data.length !== lengthOf(record));
    if (wrong !== undefined) throw new RangeError("address of a wrong length");
    const own = answersOf(message, name).filter((answer) => answer.type === type);
    const ttls = own.map((answer) => ("ttl" in answer ? (answer.ttl ?? 0) : 0));
    const values = own.map((answer) => (answer as { data: string }).data);
    return {
      values: canonicalValues(type, values),
      ttlSeconds: ttls.length === 0 ? 0 : Math.min(...ttls),
    };
  });
}

/** Serial number of the zone, from its SOA record among the answers. @throws MalformedMessageError */
export function serialOf(message: Message, zone: string): number | undefined {
  const soa = readable(() => answersOf(message, zone)).find((answer) => answer.type === "SOA");
  return soa?.type === "SOA" ? soa.data.serial : undefined;
}

function answersOf({ bytes }: Message, name: string): Answer[] {
  const answers = dnsPacket.decode(bytes).answers ?? [];
  return answers.filter((answer) => answer.name.toLowerCase() === name);
}

/** The library reads an address without looking at the length of its record. */
function lengthOf({ type, data }: RawRecord): number {
  if (type === typeNumbers.A) return 4;
  return type === typeNumbers.AAAA ? 16 : data.length;
}

function readable<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new MalformedMessageError("malformed message", { cause });
  }
}
