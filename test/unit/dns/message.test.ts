import dnsPacket from "dns-packet";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decode,
  encodeQuery,
  encodeUpdate,
  MalformedMessageError,
  questionOf,
  recordsOf,
  serialOf,
} from "../../../dns/message.ts";
import { recordsIn } from "../../../dns/structure.ts";
import { sign, verify } from "../../../dns/tsig.ts";

const name = "api.demo.rehome.example";
const typeA = 1;
const key = { name: "rehome", algorithm: "hmac-sha256", secret: Buffer.alloc(32, 7) } as const;

function answerWith(...addresses: string[]): Buffer {
  return dnsPacket.encode({
    id: 1,
    type: "response",
    flags: dnsPacket.AUTHORITATIVE_ANSWER,
    questions: [{ name, type: "A" }],
    answers: addresses.map((data, index) => ({ name, type: "A", ttl: 60 + index, data })),
  });
}

/** Reads all that a caller would read. */
function read(bytes: Buffer) {
  const message = decode(bytes);
  verify(message, sign(encodeQuery(name, "A"), key, 0), key, 0);
  questionOf(message);
  serialOf(message, name);
  return recordsOf(message, name, "A");
}

describe("decode", () => {
  it("reads values in one order, with the lowest TTL", () => {
    expect(read(answerWith("10.0.0.2", "10.0.0.1"))).toEqual({
      values: ["10.0.0.1", "10.0.0.2"],
      ttlSeconds: 60,
    });
  });

  it("passes over records of other names", () => {
    const { values } = recordsOf(decode(answerWith("10.0.0.1")), "other.example", "A");
    expect(values).toEqual([]);
  });

  it("refuses every message that is cut short or goes on after its end", () => {
    const whole = answerWith("10.0.0.1", "10.0.0.2");
    for (let length = 0; length < whole.length; length++)
      expect(() => decode(whole.subarray(0, length))).toThrow(MalformedMessageError);
    expect(() => decode(Buffer.concat([whole, Buffer.of(0)]))).toThrow(MalformedMessageError);
  });

  it("refuses an address of a wrong length, and names that point at themselves", () => {
    const short = answerWith("10.0.0.1");
    short.writeUInt16BE(3, short.length - 6);
    expect(() => read(short.subarray(0, -1))).toThrow(MalformedMessageError);
    const looped = answerWith();
    looped.writeUInt16BE(0xc00c, 12);
    expect(() => decode(looped)).toThrow(MalformedMessageError);
  });

  it("tells of garbage by one error only, whatever it is", () => {
    const signed = sign({ id: 1, bytes: answerWith("10.0.0.1") }, key, 0).bytes;
    const damaged = fc
      .array(fc.tuple(fc.nat(signed.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 })
      .map((changes) => {
        const bytes = Buffer.from(signed);
        for (const [at, value] of changes) bytes[at] = value;
        return bytes;
      });
    const random = fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes));
    const property = fc.property(fc.oneof(damaged, random), (bytes) => {
      try {
        read(bytes);
        return true;
      } catch (error) {
        return error instanceof MalformedMessageError;
      }
    });
    expect(() => fc.assert(property, { numRuns: 5_000 })).not.toThrow();
  });
});

describe("encodeUpdate", () => {
  it("asks for the old values without a TTL, then deletes the record set and adds the new one", () => {
    const to = { values: ["10.0.0.3"], ttlSeconds: 30 };
    const { bytes } = encodeUpdate({
      zone: "rehome.example",
      name,
      type: "A",
      from: ["10.0.0.1", "10.0.0.2"],
      to,
    });
    const inZone = { type: typeA, class: 1 };
    expect(recordsIn(bytes)).toMatchObject([
      { name, ...inZone, ttl: 0, data: Buffer.of(10, 0, 0, 1) },
      { name, ...inZone, ttl: 0, data: Buffer.of(10, 0, 0, 2) },
      { name, type: typeA, class: 255, ttl: 0, data: Buffer.alloc(0) },
      { name, ...inZone, ttl: 30, data: Buffer.of(10, 0, 0, 3) },
    ]);
    // Opcode 5; one zone, two prerequisites, two updates.
    expect(bytes.subarray(2, 12)).toEqual(Buffer.from("28000001000200020000", "hex"));
  });

  it("has an answer that may repeat it", () => {
    const to = { values: ["10.0.0.3"], ttlSeconds: 30 };
    const update = encodeUpdate({ zone: "rehome.example", name, type: "A", from: ["10.0.0.1"], to });
    const repeated = Buffer.from(update.bytes);
    repeated.writeUInt16BE(0xa808, 2);
    expect(decode(repeated)).toMatchObject({ id: update.id, isResponse: true, rcode: "NXRRSET" });
  });
});
