import dnsPacket from "dns-packet";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decode,
  encodeName,
  encodeQuery,
  encodeUpdate,
  MalformedMessageError,
  recordsOf,
} from "../../../dns/message.ts";
import { sign, verify } from "../../../dns/tsig.ts";

const name = "api.demo.rehome.example";
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
  const request = sign(encodeQuery(name, "A"), key, 0);
  verify(bytes, message, request, key, 0);
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
    expect(() => decode(short.subarray(0, -1))).toThrow(MalformedMessageError);
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
    fc.assert(
      fc.property(fc.oneof(damaged, random), (bytes) => {
        try {
          read(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedMessageError);
        }
      }),
      { numRuns: 5_000 },
    );
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
    const packet = dnsPacket.decode(bytes);
    expect(packet).toMatchObject({
      opcode: "UPDATE",
      questions: [{ name: "rehome.example", type: "SOA", class: "IN" }],
      answers: [
        { name, type: "A", class: "IN", ttl: 0, data: "10.0.0.1" },
        { name, type: "A", class: "IN", ttl: 0, data: "10.0.0.2" },
      ],
      authorities: [
        { name, type: "A", class: "ANY", ttl: 0 },
        { name, type: "A", class: "IN", ttl: 30, data: "10.0.0.3" },
      ],
    });
    const deletion = Buffer.concat([encodeName(name), Buffer.from("000100ff000000000000", "hex")]);
    expect(bytes.includes(deletion)).toBe(true);
  });
});
