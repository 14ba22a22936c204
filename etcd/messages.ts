import { keyFromBuffer } from "./keys.ts";
import type { Key } from "./keys.ts";
import { ProtobufReader, ProtobufWriter } from "./protobuf.ts";

/**
 * etcd's Range and Txn as they are on the wire (etcd, api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto, v3.6), written
 * and read by hand: a general decoder makes an object of every field and a string of every number, which for a copy of
 * small objects was more work than all the rest. Only the fields that rehome uses. Values are not copied: an entry's
 * value is a part of the message that it came in.
 */

/** More than all tags, lengths and numbers of one condition, operation or request take. */
const NUMBERS = 96;

export interface Entry {
  readonly key: Key;
  readonly value: Buffer;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  /** Id of the etcd lease, "0" for none. */
  readonly lease: string;
}

/** A part of a transaction's `compare`: all must hold. */
export type Condition =
  | { readonly target: "Value"; readonly key: Buffer; readonly value: Buffer }
  | { readonly target: "Mod"; readonly key: Buffer; readonly mod_revision: string };

export interface RangeRequest {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  readonly limit?: number;
  readonly revision?: string;
  readonly sort_order?: "Descend";
  readonly keys_only?: boolean;
  readonly count_only?: boolean;
}

export interface Operation {
  readonly request_range?: RangeRequest;
  readonly request_put?: { readonly key: Buffer; readonly value: Buffer; readonly lease: string };
  readonly request_delete_range?: { readonly key: Buffer; readonly range_end?: Buffer };
}

export interface RangeAnswer {
  readonly entries: Entry[];
  readonly more: boolean;
  readonly count: number;
  /** Of the store when it answered. Not told inside a transaction: 0 there. */
  readonly revision: bigint;
}

export interface TxnAnswer {
  readonly succeeded: boolean;
  readonly revision: bigint;
  /** What each read of the transaction found, in order; undefined where the operation was a write. */
  readonly reads: (RangeAnswer | undefined)[];
}

export function encodeTxn(
  conditions: readonly Condition[],
  success: readonly Operation[],
  failure: readonly Operation[],
): Buffer {
  const out = new ProtobufWriter(sizeOf(conditions) + sizeOf(success) + sizeOf(failure));
  for (const operation of failure.toReversed()) out.message(3, writeOperation, operation);
  for (const operation of success.toReversed()) out.message(2, writeOperation, operation);
  for (const condition of conditions.toReversed()) out.message(1, writeCondition, condition);
  return out.finish();
}

/** No less than what these take, tags and numbers included. */
function sizeOf(parts: readonly (Condition | Operation)[]): number {
  let size = 0;
  for (const part of parts) {
    if ("target" in part)
      size += NUMBERS + part.key.length + (part.target === "Value" ? part.value.length : 0);
    else if (part.request_put) size += NUMBERS + part.request_put.key.length + part.request_put.value.length;
    else if (part.request_delete_range) size += NUMBERS + rangeSize(part.request_delete_range);
    else if (part.request_range) size += NUMBERS + rangeSize(part.request_range);
  }
  return size;
}

function rangeSize({ key, range_end: end }: { readonly key: Buffer; readonly range_end?: Buffer }): number {
  return key.length + (end?.length ?? 0);
}

export function encodeRange(request: RangeRequest): Buffer {
  const out = new ProtobufWriter(NUMBERS + rangeSize(request));
  writeRange(out, request);
  return out.finish();
}

export function decodeRange(message: Buffer): RangeAnswer {
  return readRange(new ProtobufReader(message));
}

export function decodeTxn(message: Buffer): TxnAnswer {
  const input = new ProtobufReader(message);
  let succeeded = false;
  let revision = 0n;
  const reads: TxnAnswer["reads"] = [];
  while (input.next()) {
    if (input.field === 1) revision = readRevision(input.message());
    else if (input.field === 2) succeeded = input.number() !== 0;
    else if (input.field === 3) reads.push(readResponse(input.message()));
    else input.skip();
  }
  return { succeeded, revision, reads };
}

/** Fields of `Compare`: result 1 (EQUAL is 0, the default), target 2, key 3, mod_revision 6, value 7. */
function writeCondition(out: ProtobufWriter, condition: Condition): void {
  out.number(2, condition.target === "Value" ? 3 : 2);
  out.bytes(3, condition.key);
  // Members of a oneof are written also when they have their default, e.g. revision 0 for a key that is not there.
  if (condition.target === "Value") out.bytes(7, condition.value);
  else out.int64(6, condition.mod_revision);
}

/** `RequestOp`: a oneof of range 1, put 2, delete_range 3. */
function writeOperation(out: ProtobufWriter, operation: Operation): void {
  if (operation.request_put) out.message(2, writePut, operation.request_put);
  else if (operation.request_delete_range) out.message(3, writeDeleteRange, operation.request_delete_range);
  else if (operation.request_range) out.message(1, writeRange, operation.request_range);
}

function writePut(out: ProtobufWriter, put: NonNullable<Operation["request_put"]>): void {
  out.bytes(1, put.key);
  out.bytes(2, put.value);
  if (put.lease !== "0") out.int64(3, put.lease);
}

function writeDeleteRange(out: ProtobufWriter, range: NonNullable<Operation["request_delete_range"]>): void {
  out.bytes(1, range.key);
  if (range.range_end) out.bytes(2, range.range_end);
}

function writeRange(out: ProtobufWriter, request: RangeRequest): void {
  out.bytes(1, request.key);
  if (request.range_end) out.bytes(2, request.range_end);
  if (request.limit !== undefined) out.number(3, request.limit);
  if (request.revision !== undefined) out.int64(4, request.revision);
  if (request.sort_order) out.number(5, 2);
  if (request.keys_only) out.number(8, 1);
  if (request.count_only) out.number(9, 1);
}

/** `ResponseOp`: response_range is 1. */
function readResponse(input: ProtobufReader): RangeAnswer | undefined {
  let found: RangeAnswer | undefined;
  while (input.next()) {
    if (input.field === 1) found = readRange(input.message());
    else input.skip();
  }
  return found;
}

function readRange(input: ProtobufReader): RangeAnswer {
  const entries: Entry[] = [];
  let more = false;
  let count = 0;
  let revision = 0n;
  while (input.next()) {
    if (input.field === 1) revision = readRevision(input.message());
    else if (input.field === 2) entries.push(readEntry(input.message()));
    else if (input.field === 3) more = input.number() !== 0;
    else if (input.field === 4) count = input.number();
    else input.skip();
  }
  return { entries, more, count, revision };
}

const NOTHING: Buffer = Buffer.alloc(0);

function readEntry(input: ProtobufReader): Entry {
  let key = NOTHING;
  let value = NOTHING;
  let createRevision = 0n;
  let modRevision = 0n;
  let lease = "0";
  while (input.next()) {
    if (input.field === 1) key = input.bytes();
    else if (input.field === 2) createRevision = input.int64();
    else if (input.field === 3) modRevision = input.int64();
    else if (input.field === 5) value = input.bytes();
    else if (input.field === 6) lease = String(input.int64());
    else input.skip();
  }
  return { key: keyFromBuffer(key), value, createRevision, modRevision, lease };
}

/** `ResponseHeader`: revision is 3. */
function readRevision(input: ProtobufReader): bigint {
  let revision = 0n;
  while (input.next()) {
    if (input.field === 3) revision = input.int64();
    else input.skip();
  }
  return revision;
}
