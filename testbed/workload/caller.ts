import { setTimeout as delay } from "node:timers/promises";
import type { Account, Verb } from "./account.ts";
import { isAbsence, isSuccess, wordsOf } from "./http.ts";
import type { ApiServer, Method, Received } from "./http.ts";

export interface Request {
  readonly verb: Verb;
  readonly resource: string;
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  /** A status that is no failure, because an earlier attempt may have taken effect: 409 or 404. */
  readonly alsoFine?: number;
  /** As `alsoFine`, but only when an earlier attempt of this very call may have taken effect. */
  readonly fineAfterRetry?: number;
  /** Whether a 409 makes its sender read and try again. */
  readonly isTriedAgain?: boolean;
}

export interface Response extends Received {
  /** Whether this or an earlier attempt may have changed something without our knowing. */
  readonly uncertain: boolean;
}

const methods: Readonly<Record<Verb, Method>> = {
  get: "GET",
  list: "GET",
  create: "POST",
  update: "PUT",
  patch: "PATCH",
  apply: "PATCH",
  delete: "DELETE",
};
const conflict = 409;
/** As client-go: k8s.io/client-go/rest/request.go, `maxRetries`. */
const retries = 10;

/** Now, in ms since the epoch, with fractions and without jumps. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

/**
 * Sends requests as a client-go program does: 429 and every 5xx that carries
 * Retry-After are tried again after that time, ten times at most, and so is a
 * GET whose connection broke, where the client tells so; nothing else is. Every
 * attempt and every outcome goes into the account.
 */
export class Caller {
  readonly #server: ApiServer;
  readonly #account: Account;

  constructor(server: ApiServer, account: Account) {
    this.#server = server;
    this.#account = account;
  }

  async call(request: Request): Promise<Response> {
    const firstStartedAt = now();
    let uncertain = false;
    for (let attempts = 1; ; attempts += 1) {
      const startedAt = now();
      const received = await this.#attempt(request, startedAt);
      const { status } = received;
      const waitSeconds = retryAfter(request, received);
      if (waitSeconds !== undefined && attempts <= retries) {
        uncertain ||= isUncertain(status);
        await delay(waitSeconds * 1000);
        continue;
      }
      this.#conclude(request, received, { firstStartedAt, startedAt, attempts, uncertain });
      return { ...received, uncertain: uncertain || isUncertain(status) };
    }
  }

  async #attempt(request: Request, startedAt: number): Promise<Received> {
    const { verb, resource, path, body, contentType } = request;
    const received = await this.#server.send({
      method: methods[verb],
      path,
      ...(body === undefined ? {} : { body }),
      ...(contentType === undefined ? {} : { contentType }),
    });
    this.#account.addAttempt({ verb, resource, startedAt, endedAt: now(), status: received.status });
    return received;
  }

  #conclude(
    request: Request,
    received: Received,
    how: { firstStartedAt: number; startedAt: number; attempts: number; uncertain: boolean },
  ): void {
    const { status, body } = received;
    const isPardoned = status === request.alsoFine || (how.uncertain && status === request.fineAfterRetry);
    const fine = isSuccess(status) || (isPardoned && (status !== 404 || isAbsence(received)));
    const outcome = fine
      ? "succeeded"
      : status === conflict && request.isTriedAgain === true
        ? "conflict"
        : "failed";
    this.#account.addCall({
      verb: request.verb,
      resource: request.resource,
      firstStartedAt: how.firstStartedAt,
      startedAt: how.startedAt,
      endedAt: now(),
      status,
      attempts: how.attempts,
      outcome,
      ...(fine ? {} : { words: wordsOf(body) }),
    });
  }
}

/** Seconds until the next attempt; undefined: there is none. As client-go: rest/request.go and rest/with_retry.go. */
function retryAfter({ verb }: Request, { status, retryAfterSeconds, isReset }: Received): number | undefined {
  if (status === 429 || (status >= 500 && status <= 599)) return retryAfterSeconds;
  return methods[verb] === "GET" && isReset === true ? 1 : undefined;
}

/** A broken connection and any server error may come after the write was done. */
function isUncertain(status: number): boolean {
  return status === 0 || status >= 500;
}
