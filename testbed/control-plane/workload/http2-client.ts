import { once } from "node:events";
import { connect, constants } from "node:http2";
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import type { Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { encode, receive, timeoutMs } from "../../workload/http.ts";
import type { ApiServer, Received, Sent, WatchHandlers } from "../../workload/http.ts";
import type { Endpoint } from "./endpoint.ts";

/** As client-go: HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS. */
const pingEveryMs = 30_000;
const pingTimeoutMs = 15_000;
/** As golang.org/x/net/http2 `RoundTripOpt`. */
const retries = 6;

interface Answer {
  readonly stream: ClientHttp2Stream;
  /** Its body; ends also when the stream is cut. */
  readonly content: Readable;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/**
 * An API server over HTTP/2: all requests of a program share one session. After
 * a GOAWAY new requests go to a new session, to whatever address the name has
 * then; those that the server says it has not begun are sent again; the others
 * and the watches end on the old one.
 */
export class Http2Client implements ApiServer {
  goaways = 0;
  readonly #endpoint: Endpoint;
  #session: Session | undefined;
  readonly #sessions = new Set<Session>();

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  async send(sent: Sent): Promise<Received> {
    let isUnderWay = false;
    try {
      const signal = AbortSignal.timeout(sent.timeoutMs ?? timeoutMs);
      const answer = await this.#request(sent, signal, () => (isUnderWay = true));
      const received = await receive(answer.status, answer.headers, answer.content);
      if (!isWhole(answer.stream)) throw new Error("the answer was cut");
      return received;
    } catch (error) {
      const { message, name } = error as Error;
      const isReset = isUnderWay && name !== "AbortError";
      return { status: 0, retryAfterSeconds: undefined, body: message, ...(isReset ? { isReset } : {}) };
    }
  }

  async watch(path: string, signal: AbortSignal, on: WatchHandlers): Promise<Received | undefined> {
    const answer = await this.#request({ method: "GET", path }, signal, () => undefined);
    const { status, headers, stream, content } = answer;
    if (status !== 200) return await receive(status, headers, content);
    on.opened();
    for await (const line of createInterface({ input: content })) on.line(line);
    signal.throwIfAborted();
    if (!isWhole(stream)) throw new Error("the watch was cut");
    return undefined;
  }

  close(): void {
    for (const session of this.#sessions) session.destroy();
  }

  async #request(sent: Sent, signal: AbortSignal, sending: () => void): Promise<Answer> {
    for (let attempt = 1; ; attempt += 1) {
      const session = await this.#usable();
      // Right after the sockets were polled, as in Go, where another goroutine would have read a GOAWAY by now.
      await turn();
      if (!session.isUsable) continue;
      sending();
      const stream = session.request(sent, signal);
      try {
        return await answerOf(stream);
      } catch (error) {
        if (!session.isUnprocessed(stream) || attempt > retries) throw error;
      }
    }
  }

  async #usable(): Promise<Session> {
    const session = this.#session?.isUsable === true ? this.#session : this.#open();
    await session.connected;
    return session;
  }

  #open(): Session {
    const session = new Session(this.#endpoint, () => (this.goaways += 1));
    this.#session = session;
    this.#sessions.add(session);
    void session.ended.then(() => this.#sessions.delete(session));
    return session;
  }
}

/** One connection. */
class Session {
  readonly connected: Promise<void>;
  readonly ended: Promise<void>;
  readonly #http2: ClientHttp2Session;
  #isUsable = true;
  #lastStream = Infinity;

  constructor(endpoint: Endpoint, onGoaway: () => void) {
    const { origin, tls, lookup } = endpoint;
    // Its options go on to tls.connect, which its type does not tell.
    this.#http2 = connect(origin, { ...tls, lookup } as object);
    this.connected = once(this.#http2, "connect").then(() => undefined);
    this.connected.catch(() => undefined);
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.ended = ended;
    this.#http2.on("close", resolve);
    for (const event of ["close", "error"]) this.#http2.on(event, () => (this.#isUsable = false));
    this.#http2.on("goaway", (_code, lastStream) => {
      onGoaway();
      this.#isUsable = false;
      this.#lastStream = lastStream;
    });
    const pings = setInterval(() => this.#ping(), pingEveryMs);
    void ended.then(() => clearInterval(pings));
  }

  get isUsable(): boolean {
    return this.#isUsable && !this.#http2.closed && !this.#http2.destroyed;
  }

  request(sent: Sent, signal: AbortSignal): ClientHttp2Stream {
    const { body, headers } = encode(sent);
    const stream = this.#http2.request(
      { ...headers, ":method": sent.method, ":path": sent.path },
      { signal, endStream: body === undefined },
    );
    // What breaks it is told by how it ends.
    stream.on("error", () => undefined);
    if (body !== undefined) stream.end(body);
    return stream;
  }

  /** Whether the server has said that it did not begin with this request. */
  isUnprocessed(stream: ClientHttp2Stream): boolean {
    const isBeyond = stream.id !== undefined && stream.id > this.#lastStream;
    return isBeyond || stream.pending || stream.rstCode === constants.NGHTTP2_REFUSED_STREAM;
  }

  destroy(): void {
    this.#http2.destroy();
  }

  #ping(): void {
    if (this.#http2.destroyed) return;
    const timer = setTimeout(() => this.#http2.destroy(), pingTimeoutMs);
    this.#http2.ping(() => clearTimeout(timer));
  }
}

async function answerOf(stream: ClientHttp2Stream): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  // Read from the first moment on: after a GOAWAY, node:http2 throws away what has come and nobody has read yet.
  const content = stream.pipe(new PassThrough());
  stream.once("close", () => content.end());
  stream.once("response", (headers) => {
    resolve({ stream, content, status: headers[":status"] ?? 0, headers });
  });
  stream.once("error", reject);
  // A session that ends takes its streams along without an error.
  stream.once("close", () => reject(new Error("the connection was closed")));
  return await promise;
}

/** Also a stream that was broken off ends: only its code tells so. */
function isWhole(stream: ClientHttp2Stream): boolean {
  return stream.readableEnded && !stream.aborted && (stream.rstCode ?? 0) === constants.NGHTTP2_NO_ERROR;
}
