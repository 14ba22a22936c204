import { readFileSync } from "node:fs";
import { connect, constants } from "node:http2";
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { status } from "@grpc/grpc-js";
import { castGrpcError, isRecoverableError } from "etcd3";

/**
 * Unary gRPC calls straight on Node's HTTP/2, for the two calls that a move makes by the hundred thousand. A call
 * through @grpc/grpc-js passes a dozen layers (filters, interceptors, load balancing, retries) that rehome has no use
 * for; they took twice the time of the call itself (docs/benchmarks.md). What they did that counts is here: a deadline,
 * another connection after a broken or silent one, and errors of the same classes as etcd3's.
 */

export interface GrpcOptions {
  readonly endpoints: readonly string[];
  readonly tls?:
    | { readonly ca: string; readonly cert?: string | undefined; readonly key?: string | undefined }
    | undefined;
  /** Every call ends: an unreachable member must be an error, never a wait without end. */
  readonly deadlineMs: number;
}

/** Frames begin with a byte that tells of compression, and the length. */
const PREFIX_BYTES = 5;
/** What a server may send without waiting: a few pages. */
const STREAM_WINDOW = 4 << 20;
const CONNECTION_WINDOW = 32 << 20;
/** MB that Node lets a session hold; its default of 10 fails calls when some large values are under way. */
const SESSION_MEMORY = 1_024;

/** Calls to the members of one etcd cluster. One that a member could not answer is made again at the next. */
export class GrpcClient {
  readonly #members: readonly Member[];

  constructor(options: GrpcOptions) {
    this.#members = options.endpoints.map((endpoint) => new Member(endpoint, options));
  }

  close(): void {
    for (const member of this.#members) member.close();
  }

  /**
   * @param path `/etcdserverpb.KV/Txn`
   * @throws etcd3's error classes. After an error that is not etcd's own the outcome is unknown.
   */
  async call(path: string, message: Buffer): Promise<Buffer> {
    const members = this.#members;
    // All members take their share of the work, as with etcd's own clients.
    const first = members.length === 1 ? 0 : Math.floor(Math.random() * members.length);
    for (let attempt = 0; ; attempt++) {
      const member = members[(first + attempt) % members.length]!;
      try {
        return await member.call(path, message);
      } catch (error) {
        if (attempt === members.length || !(error instanceof Error) || !isRecoverableError(error))
          throw error;
      }
    }
  }
}

/** One member, and one connection to it, which is made when it is first needed and again after it has broken. */
class Member {
  readonly #endpoint: string;
  readonly #tls: { ca: Buffer; cert?: Buffer; key?: Buffer } | undefined;
  readonly #deadlineMs: number;
  #session: ClientHttp2Session | undefined;

  constructor(endpoint: string, { tls, deadlineMs }: GrpcOptions) {
    this.#endpoint = withScheme(endpoint, tls !== undefined);
    this.#deadlineMs = deadlineMs;
    this.#tls = tls && {
      ca: readFileSync(tls.ca),
      ...(tls.cert && { cert: readFileSync(tls.cert) }),
      ...(tls.key && { key: readFileSync(tls.key) }),
    };
  }

  close(): void {
    this.#session?.close();
    this.#session = undefined;
  }

  async call(path: string, message: Buffer): Promise<Buffer> {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    const session = this.#open();
    const stream = this.#request(session, path);
    const timer = setTimeout(() => {
      reject(failure(status.DEADLINE_EXCEEDED, `no answer from ${this.#endpoint} in ${this.#deadlineMs} ms`));
      // Whoever does not answer here may be gone: later calls are made on a connection of their own.
      this.#forget(session);
      stream.close(constants.NGHTTP2_CANCEL);
    }, this.#deadlineMs);
    receive(stream, this.#endpoint, resolve, reject);
    stream.end(framed(message));
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  #request(session: ClientHttp2Session, path: string): ClientHttp2Stream {
    try {
      return session.request({
        ":method": "POST",
        ":path": path,
        "content-type": "application/grpc",
        te: "trailers",
        "grpc-timeout": `${this.#deadlineMs}m`,
      });
    } catch (error) {
      // It was closed a moment ago.
      this.#forget(session);
      throw failure(status.UNAVAILABLE, `${this.#endpoint}: ${wordsOf(error)}`);
    }
  }

  #open(): ClientHttp2Session {
    if (this.#session && !this.#session.closed && !this.#session.destroyed) return this.#session;
    const session = connect(this.#endpoint, {
      ...this.#tls,
      settings: { initialWindowSize: STREAM_WINDOW, enablePush: false },
      maxSessionMemory: SESSION_MEMORY,
    });
    this.#session = session;
    // An idle connection keeps no process running; the timer of a call does.
    session.unref();
    session.once("connect", () => {
      // It may have been given up in the same turn.
      if (!session.destroyed) session.setLocalWindowSize(CONNECTION_WINDOW);
    });
    // Each call is told by its own stream.
    session.on("error", () => undefined);
    session.once("goaway", () => this.#forget(session));
    return session;
  }

  /** Calls that are under way on it go on, unless it has not come to stand yet. */
  #forget(session: ClientHttp2Session): void {
    if (this.#session === session) this.#session = undefined;
    if (session.connecting) session.destroy();
    else if (!session.closed) session.close();
  }
}

/** Puts the answer of one call together. */
function receive(
  stream: ClientHttp2Stream,
  endpoint: string,
  resolve: (message: Buffer) => void,
  reject: (error: Error) => void,
): void {
  const chunks: Buffer[] = [];
  let isDone = false;
  let told: IncomingHttpHeaders = {};
  let broken: unknown;
  stream.on("response", (headers) => {
    // A call that fails at once has its status here, and so has a proxy that is no gRPC server.
    if (headers["grpc-status"] !== undefined || headers[":status"] !== 200) told = headers;
  });
  stream.on("trailers", (headers) => {
    told = headers;
  });
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("error", (error) => {
    broken = error;
  });
  stream.on("end", () => {
    isDone = told["grpc-status"] === "0";
    if (isDone) settle(chunks, resolve, reject);
  });
  // Comes last, whatever came before.
  stream.on("close", () => {
    if (!isDone) reject(failureOf(told, broken, endpoint));
  });
}

function settle(chunks: Buffer[], resolve: (message: Buffer) => void, reject: (error: Error) => void): void {
  const frame = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const isWhole = frame.length >= PREFIX_BYTES && frame.readUInt32BE(1) === frame.length - PREFIX_BYTES;
  if (isWhole && frame[0] === 0) resolve(frame.subarray(PREFIX_BYTES));
  else reject(failure(status.INTERNAL, `an answer of ${frame.length} bytes cannot be read`));
}

function failureOf(told: IncomingHttpHeaders, broken: unknown, endpoint: string): Error {
  const code = Number(told["grpc-status"] ?? Number.NaN);
  if (code > 0) return failure(code, unescaped(String(told["grpc-message"] ?? "")));
  const http = told[":status"] === undefined ? "" : `HTTP status ${String(told[":status"])}`;
  const words = broken === undefined ? http || "the connection broke" : wordsOf(broken);
  return failure(status.UNAVAILABLE, `${endpoint}: ${words}`);
}

function failure(code: number, words: string): Error {
  return castGrpcError(Object.assign(new Error(`${code} ${status[code] ?? "UNKNOWN"}: ${words}`), { code }));
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** `grpc-message` is percent-encoded. */
function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function framed(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  message.copy(frame, PREFIX_BYTES);
  return frame;
}

/** As etcd3 does: with certificates always TLS; else what the endpoint says, and no TLS where it says nothing. */
function withScheme(endpoint: string, isSecure: boolean): string {
  const { groups } = /^(?:(?<scheme>https?):\/\/)?(?<host>.*)$/.exec(endpoint)!;
  return `${isSecure ? "https" : (groups!["scheme"] ?? "http")}://${groups!["host"]}`;
}
