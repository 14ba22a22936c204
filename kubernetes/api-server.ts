import { request as httpsRequest } from "node:https";
import type { RequestOptions } from "node:https";
import { request as httpRequest } from "node:http";
import type { IncomingMessage } from "node:http";
import type { LookupFunction } from "node:net";
import { createInterface } from "node:readline";
import { KubeConfig } from "@kubernetes/client-node";

export interface KubeconfigRef {
  /** File name of a kubeconfig. */
  readonly kubeconfig: string;
  readonly context?: string | undefined;
  /** Talk to this address instead of the context's own server, with the context's credentials. */
  readonly server?: string | undefined;
  /** Name that the server's certificate must carry, where `server` is reached by another. */
  readonly serverName?: string | undefined;
  /** How the server's name becomes an address; the system's way by default. */
  readonly lookup?: LookupFunction | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
}

export interface RequestInput {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path with query, from the server's root: `/clusters/root/api/v1/namespaces`. */
  readonly path: string;
  readonly body?: unknown;
  /** Default: JSON, or a merge patch for PATCH. */
  readonly contentType?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Asks as somebody of these groups, which `system:masters` may. */
  readonly asGroups?: readonly string[];
  /** It harms nobody, whoever sends it and whenever: no permit is asked for. */
  readonly isHarmless?: boolean;
}

/** An answer that is not a 2xx, in the words of the API server's Status where it sent one. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  /** `reason` of the Status, e.g. `NotFound`, `AlreadyExists`, `Conflict`; empty where there was no Status. */
  readonly reason: string;
  constructor(server: string, input: RequestInput, answer: Answer) {
    const status = parseStatus(answer.body);
    super(
      `${server}: ${input.method ?? "GET"} ${input.path} answered ${answer.status}: ${status.message ?? answer.body.slice(0, 200).trim()}`,
    );
    this.status = answer.status;
    this.reason = status.reason ?? "";
  }
}

function parseStatus(body: string): { reason?: string; message?: string } {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}

async function bodyOf(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: Buffer.concat(chunks).toString(),
  };
}

class StaleConnectionError extends Error {}

/** Whether a change is permitted could not be found out. It is no answer to the change: that was not asked for. */
export class UnpermittedError extends Error {
  override readonly name = "UnpermittedError";
  override readonly cause: ApiError;
  constructor(server: string, cause: ApiError) {
    super(`nothing was asked of ${server}: ${cause.message}`);
    this.cause = cause;
  }
}

/** @throws Error when nothing may be changed. */
export type Permit = (signal: AbortSignal) => Promise<void>;

/**
 * One address of an API server, with credentials. Raw on purpose: moving data needs exact statuses and paths of any
 * cluster, which typed clients hide.
 */
export class ApiServer {
  /** Address without a path: `https://host:port`. */
  readonly url: string;
  readonly name: string;
  readonly #config: KubeConfig;
  readonly #root: URL;
  readonly #extra: RequestOptions;
  readonly #reference: KubeconfigRef;
  readonly #permit: Permit | undefined;
  #options: Promise<RequestOptions> | undefined;

  /** @throws Error naming the file and context when the kubeconfig cannot be used. */
  constructor(name: string, reference: KubeconfigRef, permit?: Permit) {
    this.name = name;
    this.#reference = reference;
    this.#permit = permit;
    this.#config = new KubeConfig();
    this.#config.loadFromFile(reference.kubeconfig);
    if (reference.context !== undefined) {
      if (!this.#config.getContextObject(reference.context)) {
        const known = this.#config.getContexts().map((context) => context.name);
        throw new Error(
          `${reference.kubeconfig} has no context "${reference.context}"; it has: ${known.join(", ")}`,
        );
      }
      this.#config.setCurrentContext(reference.context);
    }
    const server = reference.server ?? this.#config.getCurrentCluster()?.server;
    if (server === undefined) throw new Error(`${reference.kubeconfig}: its current context names no server`);
    this.#root = new URL(server);
    const { serverName, lookup } = reference;
    this.#extra = { ...(serverName && { servername: serverName }), ...(lookup && { lookup }) };
    this.url = this.#root.origin;
  }

  /** The same server for somebody who has to ask right before each request that may change something. */
  guardedBy(permit: Permit): ApiServer {
    return new ApiServer(this.name, this.#reference, permit);
  }

  /** @returns the answer, whatever its status. @throws the socket's error, or AbortError/TimeoutError. */
  async request(input: RequestInput): Promise<Answer> {
    const options = await this.#requestOptions();
    const timeout = AbortSignal.timeout(input.timeoutMs ?? 15_000);
    const signal = input.signal ? AbortSignal.any([timeout, input.signal]) : timeout;
    const isChange = input.method !== undefined && input.method !== "GET";
    if (isChange && input.isHarmless !== true) await this.#ask(signal);
    for (;;) {
      try {
        return await this.#send(input, { ...options, signal });
      } catch (error) {
        // The server may close a kept connection just when it is used again; nothing was read from it then. Every
        // request of a move may be sent twice: it is a read, conditional, or a creation that may exist already.
        if (!(error instanceof StaleConnectionError)) throw timeout.aborted ? timeout.reason : error;
      }
    }
  }

  /**
   * The lines of a streamed 2xx answer as they come, such as a watch's; ends when the server ends it. `timeoutMs` is
   * for the answer's head only.
   * @throws ApiError for any other answer.
   */
  async *lines(input: RequestInput): AsyncGenerator<string> {
    const options = await this.#requestOptions();
    const stop = new AbortController();
    const signal = input.signal ? AbortSignal.any([stop.signal, input.signal]) : stop.signal;
    const late = setTimeout(
      () => stop.abort(new DOMException("no answer", "TimeoutError")),
      input.timeoutMs ?? 15_000,
    );
    try {
      const response = await this.#open(input, { ...options, signal });
      clearTimeout(late);
      if (response.statusCode !== 200) throw new ApiError(this.name, input, await bodyOf(response));
      const lines = createInterface({ input: response, crlfDelay: Infinity });
      // While lines are read an error ends the reading; the one of the abort below comes when nobody reads any more.
      lines.on("error", () => undefined);
      yield* lines;
    } finally {
      clearTimeout(late);
      stop.abort();
    }
  }

  async #ask(signal: AbortSignal): Promise<void> {
    try {
      await this.#permit?.(signal);
    } catch (error) {
      throw error instanceof ApiError ? new UnpermittedError(this.name, error) : error;
    }
  }

  async #send(input: RequestInput, options: RequestOptions): Promise<Answer> {
    return await bodyOf(await this.#open(input, options));
  }

  async #open(input: RequestInput, options: RequestOptions): Promise<IncomingMessage> {
    const method = input.method ?? "GET";
    const body = input.body === undefined ? undefined : Buffer.from(JSON.stringify(input.body));
    const url = new URL(this.#root.pathname.replace(/\/$/, "") + input.path, this.#root);
    const send = url.protocol === "http:" ? httpRequest : httpsRequest;
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const request = send(url, { ...options, method }, resolve);
    request.on("error", (error: NodeJS.ErrnoException) => {
      const stale = request.reusedSocket && error.code === "ECONNRESET";
      reject(stale ? new StaleConnectionError("kept connection was closed", { cause: error }) : error);
    });
    request.setHeader("accept", "application/json");
    if (input.asGroups) {
      request.setHeader("impersonate-user", "rehome");
      request.setHeader("impersonate-group", input.asGroups);
    }
    if (body) {
      // Node adds none to a DELETE, whose body, with its preconditions, would then be no part of it.
      request.setHeader("content-length", body.length);
      const patch = "application/merge-patch+json";
      request.setHeader(
        "content-type",
        input.contentType ?? (method === "PATCH" ? patch : "application/json"),
      );
    }
    request.end(body);
    return await promise;
  }

  /** @returns the JSON of a 2xx answer. @throws ApiError for any other. */
  async json<T>(input: RequestInput): Promise<T> {
    const answer = await this.request(input);
    if (answer.status < 200 || answer.status > 299) throw new ApiError(this.name, input, answer);
    return JSON.parse(answer.body) as T;
  }

  /** As {@link json}, with undefined for 404. */
  async find<T>(input: RequestInput): Promise<T | undefined> {
    try {
      return await this.json<T>(input);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /**
   * As {@link find}, and an error where the API itself is not served: for a second or two after its start kcp answers
   * "404 page not found" for every custom resource (v0.32.3), which says nothing of the object.
   */
  async findServed<T>(input: RequestInput): Promise<T | undefined> {
    try {
      return await this.json<T>(input);
    } catch (error) {
      if (error instanceof ApiError && error.reason === "NotFound") return undefined;
      throw error;
    }
  }

  async #requestOptions(): Promise<RequestOptions> {
    // Kept per server: each call would otherwise open a TLS connection of its own.
    this.#options ??= (async () => {
      const options: RequestOptions = {};
      await this.#config.applyToHTTPSOptions(options);
      return { ...options, ...this.#extra };
    })();
    return await this.#options;
  }
}
