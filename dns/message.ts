import { randomInt } from "node:crypto";
import dnsPacket from "dns-packet";
import type { Answer, Packet, RecordType } from "dns-packet";
import { canonicalName, canonicalValues } from "./names.ts";
import type { AddressType } from "./names.ts";

/** The wire format, by the library `dns-packet`; what that library leaves unchecked is checked here. */

/** The bytes are no message, or none that the standard allows. */
export class MalformedMessageError extends Error {
  override readonly name = "MalformedMessageError";
}

export interface Message {
  readonly id: number;
  readonly isResponse: boolean;
  /** Response code, e.g. `NOERROR`, `NXRRSET`. */
  readonly rcode: string;
  readonly authoritative: boolean;
  readonly truncated: boolean;
  readonly question: { readonly name: string; readonly type: string } | undefined;
  readonly answers: readonly Answer[];
  readonly authorities: readonly Answer[];
  readonly additionals: readonly Answer[];
  /** Where the last record begins; undefined when there is none. */
  readonly lastRecordOffset: number | undefined;
}

/** A request and what its answer must match. */
export interface Request {
  readonly id: number;
  readonly bytes: Buffer;
}

export type QueryType = AddressType | "SOA";

const headerBytes = 12;
const opcodeUpdate = 5 << 11;
const typeNumbers: Readonly<Record<AddressType, number>> = { A: 1, CNAME: 5, AAAA: 28 };
const addressBytes = new Map([
  [typeNumbers.A, 4],
  [typeNumbers.AAAA, 16],
]);

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
  readonly to: { readonly values: readonly string[]; readonly ttlSeconds: number };
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
    authorities: [empty as unknown as Answer, ...to.values.map((value) => record(value, to.ttlSeconds))],
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

/** @throws MalformedMessageError */
export function decode(bytes: Buffer): Message {
  try {
    const lastRecordOffset = checkStructure(bytes);
    const packet = dnsPacket.decode(bytes) as ReturnType<typeof dnsPacket.decode> & { rcode: string };
    const [question] = packet.questions ?? [];
    return {
      id: packet.id as number,
      isResponse: packet.flag_qr,
      rcode: packet.rcode,
      authoritative: packet.flag_aa,
      truncated: packet.flag_tc,
      question: question && { name: question.name.toLowerCase(), type: question.type },
      answers: packet.answers ?? [],
      authorities: packet.authorities ?? [],
      additionals: packet.additionals ?? [],
      lastRecordOffset,
    };
  } catch (cause) {
    throw new MalformedMessageError(`malformed message of ${bytes.length} bytes`, { cause });
  }
}

/** Values of the name's own records of this type, canonical, and their lowest TTL in seconds. */
export function recordsOf(message: Message, name: string, type: AddressType) {
  const own = message.answers.filter((answer) => answer.type === type && answer.name.toLowerCase() === name);
  const ttls = own.map((answer) => ("ttl" in answer ? (answer.ttl ?? 0) : 0));
  try {
    const values = canonicalValues(
      type,
      own.map((answer) => (answer as { data: string }).data),
    );
    return { values, ttlSeconds: ttls.length === 0 ? 0 : Math.min(...ttls) };
  } catch (cause) {
    throw new MalformedMessageError(`the answer holds a value that is not of type ${type}`, { cause });
  }
}

/** Serial number of the zone, from its SOA record among the answers. */
export function serialOf(message: Message, zone: string): number | undefined {
  const soa = message.answers.find(
    (answer) => answer.type === ("SOA" satisfies RecordType) && answer.name.toLowerCase() === zone,
  );
  return soa?.type === "SOA" ? soa.data.serial : undefined;
}

/** Walks over all records: the library reads past the end of a record, and of the message, without a word. */
function checkStructure(bytes: Buffer): number | undefined {
  let offset = headerBytes;
  let last: number | undefined;
  const questions = bytes.readUInt16BE(4);
  const records = bytes.readUInt16BE(6) + bytes.readUInt16BE(8) + bytes.readUInt16BE(10);
  for (let i = 0; i < questions; i++) offset = skipName(bytes, offset) + 4;
  for (let i = 0; i < records; i++) {
    last = offset;
    offset = skipName(bytes, offset);
    const type = bytes.readUInt16BE(offset);
    const length = bytes.readUInt16BE(offset + 8);
    if ((addressBytes.get(type) ?? length) !== length) throw new RangeError("address of a wrong length");
    offset += 10 + length;
  }
  if (offset !== bytes.length) throw new RangeError("the records do not end where the message ends");
  return last;
}

/** Offset after a name, which ends with an empty label or a pointer (RFC 1035 section 4.1.4). */
export function skipName(bytes: Buffer, start: number): number {
  for (let offset = start; ;) {
    const length = bytes.readUInt8(offset);
    if (length >= 0xc0) return offset + 2;
    if (length === 0) return offset + 1;
    if (length > 63) throw new RangeError("label of an unknown kind");
    offset += length + 1;
  }
}

/** A name as signatures cover it: lower case and uncompressed. @throws RangeError */
export function encodeName(name: string): Buffer {
  const labels = canonicalName(name).split(".");
  return Buffer.concat([
    ...labels.flatMap((label) => [Buffer.of(label.length), Buffer.from(label, "ascii")]),
    Buffer.of(0),
  ]);
}
