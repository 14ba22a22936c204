import { canonicalName } from "./names.ts";

/**
 * Where things are in a message (RFC 1035 section 4). The library that reads values passes over the ends of records and
 * of the message without a word, and nobody but the signature cares where a record begins.
 */

export interface RawRecord {
  /** Offset of its name in the message. */
  readonly start: number;
  readonly name: string;
  readonly type: number;
  readonly class: number;
  readonly ttl: number;
  readonly data: Buffer;
}

export const headerBytes = 12;
const pointerBits = 0xc0;

/** All records after the questions, in their order. @throws RangeError when the message is not whole or not only that */
export function recordsIn(bytes: Buffer): RawRecord[] {
  const questions = bytes.readUInt16BE(4);
  const count = bytes.readUInt16BE(6) + bytes.readUInt16BE(8) + bytes.readUInt16BE(10);
  const records: RawRecord[] = [];
  let offset = headerBytes;
  for (let i = 0; i < questions; i++) offset = readName(bytes, offset).end + 4;
  for (let i = 0; i < count; i++) {
    const { name, end } = readName(bytes, offset);
    const data = bytes.subarray(end + 10, end + 10 + bytes.readUInt16BE(end + 8));
    records.push({
      start: offset,
      name,
      type: bytes.readUInt16BE(end),
      class: bytes.readUInt16BE(end + 2),
      ttl: bytes.readUInt32BE(end + 4),
      data,
    });
    offset = end + 10 + bytes.readUInt16BE(end + 8);
  }
  if (offset !== bytes.length) throw new RangeError("the records do not end where the message ends");
  return records;
}

/** A name in lower case, and the offset after it. Pointers lead backwards only, so the walk ends. @throws RangeError */
export function readName(bytes: Buffer, start: number): { name: string; end: number } {
  const labels: string[] = [];
  let end: number | undefined;
  let earliest = start;
  for (let offset = start; ;) {
    const length = bytes.readUInt8(offset);
    if (length >= pointerBits) {
      end ??= offset + 2;
      offset = bytes.readUInt16BE(offset) & 0x3fff;
      if (offset >= earliest) throw new RangeError("name that points forward");
      earliest = offset;
    } else if (length >= 0x40) {
      throw new RangeError("label of an unknown kind");
    } else {
      offset += 1 + length;
      if (length === 0) return { name: labels.join("."), end: end ?? offset };
      if (offset > bytes.length) throw new RangeError("name beyond the end");
      labels.push(bytes.toString("latin1", offset - length, offset).toLowerCase());
      // RFC 1035 section 2.3.4; also the end of a walk over many pointers.
      if (labels.length > 127) throw new RangeError("name of too many labels");
    }
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
