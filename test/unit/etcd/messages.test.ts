import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { loadSync } from "@grpc/proto-loader";
import type { MethodDefinition, ServiceDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRange, decodeTxn, encodeRange, encodeTxn } from "../../../etcd/messages.ts";
import type { Condition, Operation, RangeRequest } from "../../../etcd/messages.ts";
import { ProtobufReader, ProtobufWriter } from "../../../etcd/protobuf.ts";
import { put, remove, removeRange, when } from "../../../etcd/store.ts";

/** The general codec, with etcd's own definitions, says what is right. */
const protos = join(dirname(createRequire(import.meta.url).resolve("etcd3")), "..", "proto", "rpc.proto");
const definitions = loadSync(protos, { keepCase: true, longs: String, enums: String, defaults: true });
const service = definitions["etcdserverpb.KV"] as ServiceDefinition;
const { Txn, Range } = service as Record<"Txn" | "Range", MethodDefinition<object, object>>;

const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
const key = fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 }).map((text) => Buffer.from(text));
const int64 = fc.bigInt(0n, 2n ** 63n - 1n).map(String);
const latin = (buffer: Buffer) => buffer.toString("latin1");

const condition: fc.Arbitrary<Condition> = fc.oneof(
  fc.tuple(key, bytes).map(([at, value]) => when.valueIs(latin(at), value)),
  fc.tuple(key, int64).map(([at, revision]) => when.modifiedAt(latin(at), BigInt(revision))),
);
const range: fc.Arbitrary<RangeRequest> = fc.record(
  {
    key,
    range_end: key,
    limit: fc.nat(),
    revision: int64,
    sort_order: fc.constant("Descend" as const),
    keys_only: fc.constant(true),
    count_only: fc.constant(true),
  },
  { requiredKeys: ["key"] },
);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.tuple(key, bytes, int64).map(([at, value, lease]) => put(latin(at), value, lease)),
  key.map((at) => remove(latin(at))),
  fc.tuple(key, key).map(([start, end]) => removeRange({ start: latin(start), end: latin(end) })),
  range.map((request) => ({ request_range: request })),
);

/** What the general codec makes of a message, without what it adds for the fields that are not there. */
function parsed(method: MethodDefinition<object, object>, message: Buffer): object {
  return method.requestDeserialize(message);
}

describe("requests", () => {
  it("are read by etcd's own definitions as what was meant", () => {
    const operations = fc.array(operation, { maxLength: 5 });
    fc.assert(
      fc.property(
        fc.array(condition, { maxLength: 5 }),
        operations,
        operations,
        (compare, success, failure) => {
          const message = encodeTxn(compare, success, failure);
          // `target` and the rest are enums by name in the general codec.
          const meant = { compare: compare.map((one) => ({ result: "Equal", ...one })), success, failure };
          expect(parsed(Txn, message)).toEqual(parsed(Txn, Txn.requestSerialize(meant)));
        },
      ),
    );
  });

  it("for ranges, too", () => {
    fc.assert(
      fc.property(range, (request) => {
        expect(parsed(Range, encodeRange(request))).toEqual(parsed(Range, Range.requestSerialize(request)));
      }),
    );
  });

  it("compare with revision 0, which protobuf leaves out where it is no choice of several", () => {
    const read = parsed(Txn, encodeTxn([when.modifiedAt("k", 0n)], [], [])) as { compare: unknown[] };
    expect(read.compare).toMatchObject([{ target: "Mod", result: "Equal", mod_revision: "0" }]);
  });
});

const header = fc.record({ cluster_id: int64, member_id: int64, revision: int64, raft_term: int64 });
const keyValue = fc.record({
  key,
  create_revision: int64,
  mod_revision: int64,
  version: int64,
  value: bytes,
  lease: int64,
});
const rangeResponse = fc.record({
  header,
  kvs: fc.array(keyValue, { maxLength: 5 }),
  more: fc.boolean(),
  count: fc.nat(),
});

type KeyValue = typeof keyValue extends fc.Arbitrary<infer T> ? T : never;

function entryOf({ key: at, value, create_revision: created, mod_revision: modified, lease }: KeyValue) {
  return {
    key: latin(at),
    value,
    createRevision: BigInt(created),
    modRevision: BigInt(modified),
    lease,
  };
}

/** None where the message cannot be read. */
function entriesOf(message: Buffer): unknown[] {
  try {
    return decodeRange(message).entries;
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}

describe("answers", () => {
  it("of ranges are read as etcd's own definitions write them", () => {
    fc.assert(
      fc.property(rangeResponse, (response) => {
        const { kvs, more, count } = response;
        const revision = BigInt(response.header.revision);
        const entries = kvs.map(entryOf);
        expect(decodeRange(Range.responseSerialize(response))).toEqual({ entries, more, count, revision });
      }),
    );
  });

  it("of transactions, too, with what their reads found in its place", () => {
    const responses = fc.array(fc.option(rangeResponse, { nil: undefined }), { maxLength: 5 });
    fc.assert(
      fc.property(header, fc.boolean(), responses, (head, succeeded, found) => {
        const answer = decodeTxn(
          Txn.responseSerialize({
            header: head,
            succeeded,
            responses: found.map((one) =>
              one ? { response_range: one } : { response_put: { header: head } },
            ),
          }),
        );
        expect(answer).toMatchObject({ succeeded, revision: BigInt(head.revision) });
        expect(answer.reads.map((read) => read?.entries)).toEqual(found.map((one) => one?.kvs.map(entryOf)));
      }),
    );
  });

  it("that are cut off anywhere are errors or have nothing made up", () => {
    fc.assert(
      fc.property(
        rangeResponse,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (response, share) => {
          const whole = Range.responseSerialize(response);
          const cut = whole.subarray(0, Math.floor(whole.length * share));
          const expected = response.kvs.map(entryOf);
          const entries = entriesOf(cut);
          expect(expected.slice(0, entries.length)).toEqual(entries);
        },
      ),
    );
  });
});

describe("protobuf", () => {
  it("keeps every 64-bit number, negative ones as well", () => {
    fc.assert(
      fc.property(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), (number) => {
        const out = new ProtobufWriter(16);
        out.int64(1, String(number));
        const input = new ProtobufReader(out.finish());
        expect(input.next()).toBe(true);
        expect(input.int64()).toBe(number);
        expect(input.next()).toBe(false);
      }),
    );
  });

  it("never sends a message that did not fit", () => {
    const out = new ProtobufWriter(8);
    expect(() => out.bytes(1, Buffer.alloc(9))).toThrow(RangeError);
  });

  it("passes over fields that it does not know, of every wire type", () => {
    // Fields 1 (varint), 2 (64 bits), 3 (bytes), 4 (32 bits), then 5 (varint 7).
    const message = Buffer.from([
      0x08, 0x96, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 1, 9, 0x25, 1, 2, 3, 4, 0x28, 7,
    ]);
    const input = new ProtobufReader(message);
    for (const field of [1, 2, 3, 4]) {
      expect(input.next() && input.field).toBe(field);
      input.skip();
    }
    expect(input.next() && input.number()).toBe(7);
  });
});
