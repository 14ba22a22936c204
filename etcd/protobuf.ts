/** As much of protobuf's encoding as etcd's calls need: varints and length-delimited fields. */

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;
/** A varint of so many bytes is exact as a number. */
const EXACT_BYTES = 7;

/**
 * Writes a message from its end to its beginning, so that each length is known by the time it is written, and nothing
 * is gone through twice or copied. Repeated fields must be written last one first.
 */
export class ProtobufWriter {
  readonly #buffer: Buffer;
  #at: number;

  /** @param capacity bytes, no less than the message will take */
  constructor(capacity: number) {
    this.#buffer = Buffer.allocUnsafe(capacity);
    this.#at = capacity;
  }

  finish(): Buffer {
    return this.#buffer.subarray(this.#at);
  }

  message<T>(field: number, write: (out: ProtobufWriter, value: T) => void, value: T): void {
    const end = this.#at;
    write(this, value);
    this.#varint(end - this.#at);
    this.#varint(field * 8 + DELIMITED);
  }

  bytes(field: number, value: Buffer): void {
    this.#at -= value.length;
    value.copy(this.#buffer, this.#room());
    this.#varint(value.length);
    this.#varint(field * 8 + DELIMITED);
  }

  /** @param value not negative, and exact as a number */
  number(field: number, value: number): void {
    this.#varint(value);
    this.#varint(field * 8 + VARINT);
  }

  /** @param value decimal */
  int64(field: number, value: string): void {
    const number = Number(value);
    if (number >= 0 && number <= Number.MAX_SAFE_INTEGER) this.#varint(number);
    else this.#bigVarint(BigInt.asUintN(64, BigInt(value)));
    this.#varint(field * 8 + VARINT);
  }

  #varint(value: number): void {
    let size = 1;
    for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size += 1;
    this.#at -= size;
    let at = this.#room();
    let rest = value;
    while (rest >= 0x80) {
      this.#buffer[at++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#buffer[at] = rest;
  }

  #bigVarint(value: bigint): void {
    const bytes: number[] = [];
    let rest = value;
    for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
    bytes.push(Number(rest));
    this.#at -= bytes.length;
    this.#buffer.set(bytes, this.#room());
  }

  /** @returns where to write. @throws RangeError: a message that is cut off must never be sent. */
  #room(): number {
    if (this.#at < 0) throw new RangeError("the message is longer than its capacity");
    return this.#at;
  }
}

/** Reads the fields of a message one after the other: `next`, then by `field` one of the others. Copies no bytes. */
export class ProtobufReader {
  /** Number of the field that `next` has found. */
  field = 0;
  readonly #buffer: Buffer;
  readonly #end: number;
  #at: number;
  #wireType = 0;

  constructor(buffer: Buffer, start = 0, end = buffer.length) {
    this.#buffer = buffer;
    this.#at = start;
    this.#end = end;
  }

  /** @returns false at the end of the message */
  next(): boolean {
    if (this.#at >= this.#end) return false;
    const tag = this.number();
    this.field = Math.floor(tag / 8);
    this.#wireType = tag % 8;
    return true;
  }

  number(): number {
    return Number(this.#varint());
  }

  int64(): bigint {
    return BigInt.asIntN(64, BigInt(this.#varint()));
  }

  bytes(): Buffer {
    const [start, end] = this.#delimited();
    return this.#buffer.subarray(start, end);
  }

  message(): ProtobufReader {
    const [start, end] = this.#delimited();
    return new ProtobufReader(this.#buffer, start, end);
  }

  /** Passes over the field's value. */
  skip(): void {
    if (this.#wireType === VARINT) this.#varint();
    else if (this.#wireType === DELIMITED) this.#delimited();
    else if (this.#wireType === FIXED64) this.#forward(8);
    else if (this.#wireType === FIXED32) this.#forward(4);
    else throw new RangeError(`unknown wire type ${this.#wireType}`);
  }

  #delimited(): [start: number, end: number] {
    const length = this.number();
    const start = this.#at;
    this.#forward(length);
    return [start, this.#at];
  }

  #forward(length: number): void {
    this.#at += length;
    if (this.#at > this.#end) throw new RangeError("the message is cut off");
  }

  /** A number as long as that is exact. */
  #varint(): number | bigint {
    let value = 0;
    let factor = 1;
    for (let size = 0; size < EXACT_BYTES; size++) {
      const byte = this.#byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 0x80;
    }
    let big = BigInt(value);
    for (let shift = BigInt(7 * EXACT_BYTES); ; shift += 7n) {
      const byte = this.#byte();
      big |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return big;
      if (shift > 56n) throw new RangeError("a number of more than 64 bits");
    }
  }

  #byte(): number {
    const byte = this.#at < this.#end ? this.#buffer[this.#at] : undefined;
    if (byte === undefined) throw new RangeError("the message is cut off");
    this.#at += 1;
    return byte;
  }
}
