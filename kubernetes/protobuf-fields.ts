/** As much of protobuf's decoding as looking into stored objects needs. */

export interface Field {
  readonly number: number;
  /** The whole field, tag included. */
  readonly bytes: Buffer;
  /** Of a length-delimited field. */
  readonly content: Buffer;
}

/** All fields of a message, in their order; copies no bytes. What is cut off ends the last of them early. */
export function fieldsOf(message: Buffer): Field[] {
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
