import type { ClientRequest, IncomingMessage } from "node:http";
import { request } from "node:https";
import type { Socket } from "node:net";
import type { Agent } from "node:https";
import { createInterface } from "node:readline";
import { setImmediate as turn } from "node:timers/promises";
import { encode, receive, timeoutMs } from "./http.ts";
import type { ApiServer, Received, Sent, WatchHandlers } from "./http.ts";

export interface HttpsClientOptions {
  /** e.g. `https://api.example.com:6443` */
  readonly origin: string;
  /** Keeps the connections. {@link HttpsClient.close} destroys it. */
  readonly agent: Agent;
  /**
   * Whether a GET that was sent on a kept connection which then broke without an answer is sent again at once, and a
   * broken connection is told apart in {@link Received.isReset}; as Go's net/http (`shouldRetryRequest`) and client-go
   * do. Default false.
   */
  readonly isLikeGo?: boolean;
}

interface Attempt {
  readonly call: ClientRequest;
  readonly response: Promise<IncomingMessage>;
}

/** An API server over HTTP/1.1. */
export class HttpsClient implements ApiServer {
  readonly #options: HttpsClientOptions;

  constructor(options: HttpsClientOptions) {
    this.#options = options;
  }

  async send(sent: Sent): Promise<Received> {
    try {
      const signal = AbortSignal.timeout(sent.timeoutMs ?? timeoutMs);
      const response = await this.#begin(sent, signal);
      return await receive(response.statusCode ?? 0, response.headers, response);
    } catch (error) {
      const { message } = error as Error;
      const isReset = this.#options.isLikeGo === true && isBroken(error);
      return { status: 0, retryAfterSeconds: undefined, body: message, ...(isReset ? { isReset } : {}) };
    }
  }

  async watch(path: string, signal: AbortSignal, on: WatchHandlers): Promise<Received | undefined> {
    const response = await this.#begin({ method: "GET", path }, signal);
    const { statusCode = 0, headers } = response;
    if (statusCode !== 200) return await receive(statusCode, headers, response);
    on.opened();
    for await (const line of createInterface({ input: response })) on.line(line);
    // A stream cut in the middle ends the lines without a word.
    if (!response.complete) throw new Error("the watch was cut");
    return undefined;
  }

  close(): void {
    this.#options.agent.destroy();
  }

  async #begin(sent: Sent, signal: AbortSignal): Promise<IncomingMessage> {
    if (this.#options.isLikeGo !== true) return await this.#attempt(sent, signal).response;
    for (;;) {
      // Right after the sockets were polled: a connection that the server has closed by now is not used any more, as
      // in Go, where the goroutine that reads it would have dropped it.
      await turn();
      const { call, response } = this.#attempt(sent, signal);
      try {
        return await response;
      } catch (error) {
        if (!(sent.method === "GET" && call.reusedSocket && isBroken(error))) throw error;
      }
    }
  }

  #attempt(sent: Sent, signal: AbortSignal): Attempt {
    const { agent, origin, isLikeGo } = this.#options;
    const { body, headers } = encode(sent);
    const call = request(new URL(sent.path, origin), { agent, method: sent.method, signal, headers });
    const { promise: response, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    if (isLikeGo === true) call.once("socket", dropWhenEnded);
    call.on("response", resolve);
    call.on("error", reject);
    call.end(body);
    return { call, response };
  }
}

/**
 * A connection that the server has closed leaves the agent only after its own side is closed too, which takes a while
 * with TLS; until then the agent would give it to requests that cannot be answered.
 */
function dropWhenEnded(socket: Socket): void {
  if (socket.listeners("end").includes(destroyEnded)) return;
  socket.on("end", destroyEnded);
}

function destroyEnded(this: Socket): void {
  this.destroy();
}

/** Whether a connection that stood has broken: not refused, not timed out. */
function isBroken(error: unknown): boolean {
  return ["ECONNRESET", "EPIPE"].includes((error as NodeJS.ErrnoException).code ?? "");
}
