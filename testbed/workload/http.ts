import type { IncomingHttpHeaders } from "node:http";

/** What clients send to an API server and how it answers, whatever the protocol beneath. */

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Sent {
  readonly method: Method;
  /** With query, from the server's root. */
  readonly path: string;
  readonly body?: unknown;
  /** Of the body. Default `application/merge-patch+json` for a PATCH, `application/json` otherwise. */
  readonly contentType?: string;
  readonly timeoutMs?: number;
}

export interface Received {
  /** HTTP status; 0 when the connection broke or the time was up. */
  readonly status: number;
  /** Seconds of the header Retry-After, where it was sent. */
  readonly retryAfterSeconds: number | undefined;
  /** The JSON body, or the text where it was none. */
  readonly body: unknown;
  /** The connection stood and then broke, and the client is one that sends a GET again after that. */
  readonly isReset?: boolean;
}

export interface WatchHandlers {
  /** The server has begun to answer with 200. */
  opened(): void;
  line(line: string): void;
}

/** An API server as a client program sees it: one attempt per call, and no opinion on statuses. */
export interface ApiServer {
  /** One attempt. Never rejects: a broken connection is status 0. */
  send(sent: Sent): Promise<Received>;

  /**
   * Opens a watch and hands over its events one by one until the server ends it.
   * @returns the answer instead when it was not a 200
   * @throws the connection's error, also midway; AbortError when `signal` says so
   */
  watch(path: string, signal: AbortSignal, on: WatchHandlers): Promise<Received | undefined>;
}

/** Longer than an API server lets an ordinary request run (60 s), so that it is the server who ends it. */
export const timeoutMs = 70_000;

/**
 * @returns the JSON of a 2xx answer.
 * @throws Error with request, status and answer for any other
 */
export async function jsonFrom<T>(server: ApiServer, sent: Sent): Promise<T> {
  const { status, body } = await server.send(sent);
  if (!isSuccess(status)) throw new Error(`${sent.method} ${sent.path} answered ${status}: ${wordsOf(body)}`);
  return body as T;
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/**
 * Whether a 404 says that an object is not there, by its name. Any other says that the whole resource is not served,
 * as by a kcp that is starting: for a second or two it answers "page not found" for every custom resource.
 */
export function isAbsence({ status, body }: Pick<Received, "status" | "body">): boolean {
  return status === 404 && (body as { details?: { name?: string } } | undefined)?.details?.name !== undefined;
}

/** The message of a Status object, or the text. */
export function wordsOf(body: unknown): string {
  const text = typeof body === "string" ? body : (body as { message?: string } | undefined)?.message;
  return (text ?? "no message").slice(0, 300).trim();
}

/** A request's body and the headers that describe it. */
export function encode(sent: Sent): {
  body: string | undefined;
  headers: Record<string, string | number>;
} {
  if (sent.body === undefined) return { body: undefined, headers: { accept: "application/json" } };
  const body = JSON.stringify(sent.body);
  const usual = sent.method === "PATCH" ? "application/merge-patch+json" : "application/json";
  return {
    body,
    headers: {
      accept: "application/json",
      "content-type": sent.contentType ?? usual,
      "content-length": Buffer.byteLength(body),
    },
  };
}

/** Puts an answer together. */
export async function receive(
  status: number,
  headers: IncomingHttpHeaders,
  stream: AsyncIterable<unknown>,
): Promise<Received> {
  const seconds = Number.parseInt(headers["retry-after"] ?? "", 10);
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return {
    status,
    retryAfterSeconds: Number.isNaN(seconds) ? undefined : seconds,
    body: parse(Buffer.concat(chunks).toString()),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
