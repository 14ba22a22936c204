import { Agent, request } from "node:https";
import type { IncomingMessage } from "node:http";
import { createInterface } from "node:readline";
import { KubeConfig } from "@kubernetes/client-node";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Sent {
  readonly method: Method;
  /** With query, from the server's root. */
  readonly path: string;
  readonly body?: unknown;
  readonly timeoutMs?: number;
}

export interface Received {
  /** HTTP status; 0 when the connection broke or the time was up. */
  readonly status: number;
  /** Seconds of the header Retry-After, where it was sent. */
  readonly retryAfterSeconds: number | undefined;
  /** The JSON body, or the text where it was none. */
  readonly body: unknown;
}

/** Longer than a kcp server lets an ordinary request run, so that it is the server who ends it. */
const timeoutMs = 70_000;
/** Clients of one program share this many connections at most. */
const connections = 128;

/**
 * The front-proxy as a client program sees it: connections that are kept, one
 * attempt per call, and no opinion on statuses.
 */
export class FrontProxy {
  readonly #agent: Agent;
  readonly #origin: string;

  private constructor(origin: string, agent: Agent) {
    this.#origin = origin;
    this.#agent = agent;
  }

  /** @param context one whose server has no `/clusters/...` path */
  static async open(kubeconfig: string, context = "base"): Promise<FrontProxy> {
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    config.setCurrentContext(context);
    const options: { ca?: string; cert?: string; key?: string } = {};
    await config.applyToHTTPSOptions(options);
    const { ca, cert, key } = options;
    const agent = new Agent({
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      keepAlive: true,
      maxSockets: connections,
    });
    const server = config.getCurrentCluster()?.server;
    if (server === undefined) throw new Error(`${kubeconfig}: context ${context} names no server`);
    return new FrontProxy(new URL(server).origin, agent);
  }

  /** One attempt. Never rejects: a broken connection is status 0. */
  async send(sent: Sent): Promise<Received> {
    try {
      const response = await this.#begin(sent, AbortSignal.timeout(sent.timeoutMs ?? timeoutMs));
      return { ...headOf(response), body: parse(await textOf(response)) };
    } catch (error) {
      return { status: 0, retryAfterSeconds: undefined, body: (error as Error).message };
    }
  }

  /**
   * @returns the JSON of a 2xx answer.
   * @throws Error with request, status and answer for any other
   */
  async json<T>(sent: Sent): Promise<T> {
    const { status, body } = await this.send(sent);
    if (!isSuccess(status))
      throw new Error(`${sent.method} ${sent.path} answered ${status}: ${wordsOf(body)}`);
    return body as T;
  }

  /**
   * Opens a watch and hands over its events one by one until the server ends it.
   * @returns the answer instead when it was not a 200
   * @throws the connection's error, also midway; AbortError when `signal` says so
   */
  async watch(
    path: string,
    signal: AbortSignal,
    on: { opened(): void; line(line: string): void },
  ): Promise<Received | undefined> {
    const response = await this.#begin({ method: "GET", path }, signal);
    if (response.statusCode !== 200) return { ...headOf(response), body: parse(await textOf(response)) };
    on.opened();
    for await (const line of createInterface({ input: response })) on.line(line);
    // A stream cut in the middle ends the lines without a word.
    if (!response.complete) throw new Error("the watch was cut");
    return undefined;
  }

  close(): void {
    this.#agent.destroy();
  }

  async #begin(sent: Sent, signal: AbortSignal): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const body = sent.body === undefined ? undefined : JSON.stringify(sent.body);
    const contentType = sent.method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const call = request(
      new URL(sent.path, this.#origin),
      {
        agent: this.#agent,
        method: sent.method,
        signal,
        headers: {
          accept: "application/json",
          ...(body === undefined
            ? {}
            : { "content-type": contentType, "content-length": Buffer.byteLength(body) }),
        },
      },
      resolve,
    );
    call.on("error", reject);
    call.end(body);
    return await promise;
  }
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** The message of a Status object, or the text. */
export function wordsOf(body: unknown): string {
  const text = typeof body === "string" ? body : (body as { message?: string } | undefined)?.message;
  return (text ?? "no message").slice(0, 300).trim();
}

function headOf({
  statusCode = 0,
  headers,
}: IncomingMessage): Pick<Received, "status" | "retryAfterSeconds"> {
  const seconds = Number.parseInt(headers["retry-after"] ?? "", 10);
  return { status: statusCode, retryAfterSeconds: Number.isNaN(seconds) ? undefined : seconds };
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
