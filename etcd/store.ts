import { readFileSync } from "node:fs";
import { InterceptingCall } from "@grpc/grpc-js";
import type { Interceptor } from "@grpc/grpc-js";
import { handleWhen, noop, retry } from "cockatiel";
import { Etcd3, isRecoverableError } from "etcd3";
import type { IKeyValue } from "etcd3";
import { CompactedError } from "./errors.ts";
import { GrpcClient } from "./grpc.ts";
import { keyFromBuffer, keyToBuffer } from "./keys.ts";
import type { Key, KeyRange } from "./keys.ts";
import { decodeRange, decodeTxn, encodeRange, encodeTxn } from "./messages.ts";
import type { Condition, Entry, Operation, RangeAnswer, RangeRequest, TxnAnswer } from "./messages.ts";
import { Walk } from "./walk.ts";

/** Where a store is and how to reach it. File names, not contents: files are re-read for each new client. */
export interface StoreOptions {
  /** Name in messages, e.g. `etcd of shard-1`. */
  readonly name: string;
  readonly endpoints: readonly string[];
  /** Registry prefix without a slash at its end, `/registry` in most installations. */
  readonly prefix: string;
  readonly tls?:
    | { readonly ca: string; readonly cert?: string | undefined; readonly key?: string | undefined }
    | undefined;
}

export type { Condition, Entry, Operation } from "./messages.ts";

export interface ReadOptions {
  /** Read the store as it was at this revision; the newest when left out. */
  readonly revision?: bigint;
  readonly limit?: number;
  readonly keysOnly?: boolean;
  readonly descending?: boolean;
}

/**
 * Keys of a range: `more` were left out by the limit, `count` are in the whole range, `revision` is the store's newest
 * when it was read.
 */
export type Page = RangeAnswer;

/** etcd refuses transactions of more than 128 operations or conditions (`--max-txn-ops`). */
export const MAX_OPERATIONS = 100;

/** A page is read with so many keys that it holds about this many bytes: large objects must not fill the memory. */
const PAGE_BYTES = 1 << 20;
const MAX_PAGE_KEYS = 2_000;

/** Every unary call ends: an unreachable store must be an error, never a wait without end. */
const CALL_DEADLINE_MS = 15_000;

/**
 * How often an idle connection is tried. etcd drops one that is tried more often than every 5 s (its
 * `--grpc-keepalive-min-time`), with whatever watches it has, and a busy process is early by as long as it was busy.
 */
export const KEEPALIVE_MS = 10_000;

const RANGE = "/etcdserverpb.KV/Range";
const TXN = "/etcdserverpb.KV/Txn";

/**
 * A member that has lost its quorum keeps a stream open for ever, and says nothing, unless it was told that it must have
 * a leader (etcd v3.6.8, server/etcdserver/api/v3rpc/interceptor.go).
 */
const requireLeader: Interceptor = (options, nextCall) =>
  new InterceptingCall(nextCall(options), {
    start(metadata, listener, next) {
      metadata.set("hasleader", "true");
      next(metadata, listener);
    },
  });

function connect(hosts: readonly string[], tls: StoreOptions["tls"]): Etcd3 {
  return new Etcd3({
    hosts: [...hosts],
    ...(tls && {
      credentials: {
        rootCertificate: readFileSync(tls.ca),
        ...(tls.key && { privateKey: readFileSync(tls.key) }),
        ...(tls.cert && { certChain: readFileSync(tls.cert) }),
      },
    }),
    grpcOptions: { "grpc.max_receive_message_length": -1, "grpc.keepalive_time_ms": KEEPALIVE_MS },
    defaultCallOptions: ({ isStream }) => (isStream ? {} : { deadline: Date.now() + CALL_DEADLINE_MS }),
    faultHandling: {
      host: () => noop,
      global: retry(handleWhen(isRecoverableError), { maxAttempts: hosts.length }),
    },
  });
}

/**
 * One shard's etcd. A thin layer over raw calls: keys as {@link Key}, revisions as bigint. What a move does for every
 * key goes through `grpc.ts`, the rest through etcd3, there with no circuit breaker (its default one fails every call
 * for five seconds after three errors, which inside a fence would be an outage of its own). A call that failed because
 * a member is unavailable is tried at the next member.
 */
export class Store {
  readonly name: string;
  readonly prefix: string;
  readonly #client: Etcd3;
  readonly #kv: GrpcClient;
  readonly #options: StoreOptions;

  constructor(options: StoreOptions) {
    this.name = options.name;
    this.prefix = options.prefix;
    const { endpoints, tls } = options;
    this.#kv = new GrpcClient({ endpoints, tls, deadlineMs: CALL_DEADLINE_MS });
    this.#client = connect(endpoints, tls);
    this.#options = options;
  }

  close(): void {
    this.#client.close();
    this.#kv.close();
  }

  /** The newest revision, read linearizably. */
  async head(): Promise<bigint> {
    return (await this.#range({ key: keyToBuffer(`${this.prefix}.rehome/`), count_only: true }, {})).revision;
  }

  /** One key, and the revision at which it was read. */
  async get(key: Key, options: ReadOptions = {}): Promise<{ entry: Entry | undefined; revision: bigint }> {
    const { entries, revision } = await this.#range({ key: keyToBuffer(key) }, options);
    return { entry: entries[0], revision };
  }

  /** Those of the keys that exist. `keys` may be up to `MAX_OPERATIONS`. */
  async getMany(keys: readonly Key[], revision?: bigint): Promise<Map<Key, Entry>> {
    const pin = revision === undefined ? {} : { revision: String(revision) };
    const reads = keys.map((key) => ({ request_range: { key: keyToBuffer(key), ...pin } }));
    const answer = await this.transact([], reads);
    const entries = answer.reads.flatMap((read) => read?.entries ?? []);
    return new Map(entries.map((entry) => [entry.key, entry]));
  }

  /** The keys of a range in byte order, `limit` at most. */
  async read(range: KeyRange, options: ReadOptions = {}): Promise<Page> {
    return await this.#range({ key: keyToBuffer(range.start), range_end: keyToBuffer(range.end) }, options);
  }

  async count(range: KeyRange, revision?: bigint): Promise<number> {
    const request = { key: keyToBuffer(range.start), range_end: keyToBuffer(range.end), count_only: true };
    return (await this.#range(request, revision === undefined ? {} : { revision })).count;
  }

  /**
   * All keys of a range in byte order, in pages bounded by bytes as well as by count. The next page is asked for
   * while the caller works on the one before.
   * @param options.revision pins the read; without it each page shows the store as it is when the page is read.
   * @throws CompactedError when the pinned revision is no longer there.
   */
  async *pages(
    range: KeyRange,
    options: Pick<ReadOptions, "revision" | "keysOnly"> = {},
  ): AsyncGenerator<Entry[], void, undefined> {
    let limit = 128;
    const walk = new Walk(range);
    const ask = () => walk.next && this.read(walk.next, { ...options, limit });
    let next = ask();
    while (next) {
      const page = await next;
      walk.turn(page, limit);
      const { entries } = page;
      if (entries.length > 0) {
        const bytes = entries.reduce((sum, entry) => sum + entry.key.length + entry.value.length, 1);
        const fitting = Math.floor((PAGE_BYTES * entries.length) / bytes);
        limit = Math.max(1, Math.min(MAX_PAGE_KEYS, limit * 4, fitting));
      }
      next = ask();
      // A caller that stops early must not leave a rejection unhandled.
      next?.catch(() => undefined);
      if (entries.length > 0) yield entries;
    }
  }

  /**
   * One transaction.
   * @throws the client's gRPC error. After an error the outcome is unknown: callers make the conditions tell.
   */
  async transact(
    conditions: readonly Condition[],
    success: readonly Operation[],
    failure: readonly Operation[] = [],
  ): Promise<TxnAnswer> {
    try {
      return decodeTxn(await this.#kv.call(TXN, encodeTxn(conditions, success, failure)));
    } catch (error) {
      throw asCompacted(this.name, error);
    }
  }

  /** Discards the history before `revision`, as API servers do every five minutes. */
  async compact(revision: bigint): Promise<void> {
    await this.#client.kv.compact({ revision: String(revision), physical: true });
  }

  /** Opens a raw watch stream. etcd3's own watcher is not used: see `watch.ts`. */
  async watchStream() {
    return await this.#client.watchClient.watch({ interceptors: [requireLeader] });
  }

  get leases() {
    return this.#client.leaseClient;
  }

  /** Id of the etcd cluster: two stores with the same one are one. */
  async clusterId(): Promise<string> {
    return (await this.#client.maintenance.status()).header.cluster_id;
  }

  /** Versions, e.g. `3.6.8`, of the members at all endpoints that answer. @throws when none does. */
  async versions(): Promise<string[]> {
    const { endpoints, tls } = this.#options;
    const answers = await Promise.allSettled(
      endpoints.map(async (endpoint) => {
        const member = connect([endpoint], tls);
        try {
          return (await member.maintenance.status()).version;
        } finally {
          member.close();
        }
      }),
    );
    const versions = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    if (versions.length > 0) return versions;
    throw answers.find((answer) => answer.status === "rejected")?.reason;
  }

  /** Alarms that are raised, e.g. `NOSPACE`. */
  async alarms(): Promise<string[]> {
    const { alarms } = await this.#client.maintenance.alarm({ action: "Get" });
    return alarms.map(({ alarm }) => alarm.toUpperCase());
  }

  async #range(request: RangeRequest, options: ReadOptions): Promise<Page> {
    try {
      const message = encodeRange({
        ...request,
        ...(options.revision !== undefined && { revision: String(options.revision) }),
        ...(options.limit !== undefined && { limit: options.limit }),
        ...(options.keysOnly && { keys_only: true }),
        ...(options.descending && { sort_order: "Descend" as const }),
      });
      return decodeRange(await this.#kv.call(RANGE, message));
    } catch (error) {
      throw asCompacted(this.name, error);
    }
  }
}

export function toEntry(kv: IKeyValue): Entry {
  return {
    key: keyFromBuffer(kv.key),
    value: kv.value,
    createRevision: BigInt(kv.create_revision),
    modRevision: BigInt(kv.mod_revision),
    lease: kv.lease,
  };
}

function asCompacted(store: string, error: unknown): unknown {
  // etcd answers OUT_OF_RANGE with this text (server/v3/storage/mvcc: ErrCompacted); the client keeps only the text.
  return error instanceof Error && error.message.includes("has been compacted")
    ? new CompactedError(store)
    : error;
}

export function put(key: Key, value: Buffer | string, lease = "0"): Operation {
  return {
    request_put: { key: keyToBuffer(key), value: Buffer.isBuffer(value) ? value : Buffer.from(value), lease },
  };
}

export function remove(key: Key): Operation {
  return { request_delete_range: { key: keyToBuffer(key) } };
}

export function removeRange(range: KeyRange): Operation {
  return { request_delete_range: { key: keyToBuffer(range.start), range_end: keyToBuffer(range.end) } };
}

export const when = {
  valueIs: (key: Key, value: Buffer | string): Condition => ({
    target: "Value",
    key: keyToBuffer(key),
    value: Buffer.isBuffer(value) ? value : Buffer.from(value),
  }),
  /** `revision` 0 means: the key does not exist. */
  modifiedAt: (key: Key, revision: bigint): Condition => ({
    target: "Mod",
    key: keyToBuffer(key),
    mod_revision: String(revision),
  }),
};

/** What etcd takes in one transaction each. */
export function chunksOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / MAX_OPERATIONS) }, (_, i) =>
    all.slice(i * MAX_OPERATIONS, (i + 1) * MAX_OPERATIONS),
  );
}
