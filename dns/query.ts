import { RefusedError, ServerFailureError, UnreachableError } from "./errors.ts";
import type { RefusalReason } from "./errors.ts";
import {
  decode,
  encodeQuery,
  isTruncated,
  MalformedMessageError,
  questionOf,
  recordsOf,
  serialOf,
} from "./message.ts";
import type { Message, QueryType } from "./message.ts";
import { canonicalName, describeServer } from "./names.ts";
import type { AddressType, DnsServer } from "./names.ts";
import { exchangeTcp, exchangeUdp, NoAnswerError } from "./transport.ts";
import type { ExchangeOptions } from "./transport.ts";

/** Values and TTL that a record has or shall have. */
export interface RecordValues {
  readonly values: readonly string[];
  readonly ttlSeconds: number;
}

export interface QueryAnswer {
  /** `absent`: the name exists without this type (or its server does not tell); `nameError`: NXDOMAIN. */
  readonly status: "found" | "absent" | "nameError";
  /** Canonical and sorted; empty unless found. */
  readonly values: readonly string[];
  /** 0 unless found. */
  readonly ttlSeconds: number;
  /** Whether the server answered for itself (AA), not from a cache. */
  readonly authoritative: boolean;
}

export interface QueryOptions {
  /** Wait for one datagram or connection, in ms. Default 2 s. */
  readonly timeoutMs?: number;
  /** Datagrams sent before the server counts as unreachable. Default 3. */
  readonly attempts?: number;
  readonly signal?: AbortSignal | undefined;
}

const defaultTimeoutMs = 2_000;
const defaultAttempts = 3;
const refusals = new Set<string>(["REFUSED", "NOTAUTH", "NOTZONE", "NOTIMP"] satisfies RefusalReason[]);

/**
 * Asks one server directly, without recursion: over UDP, and again over TCP when the answer did not fit.
 * @throws RefusedError, ServerFailureError, UnreachableError, or the signal's reason
 */
export async function query(
  server: DnsServer,
  name: string,
  type: AddressType,
  options: QueryOptions = {},
): Promise<QueryAnswer> {
  const asked = canonicalName(name);
  return await ask(server, asked, type, options, (message) => {
    const { values, ttlSeconds } = recordsOf(message, asked, type);
    const missing = message.rcode === "NXDOMAIN" ? "nameError" : "absent";
    const status = values.length > 0 ? "found" : missing;
    return { status, values, ttlSeconds, authoritative: message.authoritative };
  });
}

/**
 * The zone's serial number at one server; undefined when the server does not hold the zone.
 * @throws as {@link query}
 */
export async function zoneSerial(
  server: DnsServer,
  zone: string,
  options: QueryOptions = {},
): Promise<number | undefined> {
  const asked = canonicalName(zone);
  return await ask(server, asked, "SOA", options, (message) => serialOf(message, asked));
}

async function ask<T>(
  server: DnsServer,
  name: string,
  type: QueryType,
  options: QueryOptions,
  read: (message: Message) => T,
): Promise<T> {
  const { timeoutMs = defaultTimeoutMs, attempts = defaultAttempts, signal } = options;
  const failures = new Set<string>();
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      return read(await askOnce(server, name, type, { timeoutMs, signal }));
    } catch (error) {
      if (error instanceof MalformedMessageError)
        throw new ServerFailureError(describeServer(server), error.message);
      if (!(error instanceof NoAnswerError)) throw error;
      failures.add(error.message);
    }
  }
  throw new UnreachableError([...failures]);
}

async function askOnce(
  server: DnsServer,
  name: string,
  type: QueryType,
  options: ExchangeOptions,
): Promise<Message> {
  const request = encodeQuery(name, type);
  const short = await exchangeUdp(server, request, options);
  const message = decode(isTruncated(short) ? await exchangeTcp(server, request, options) : short);
  const { id, isResponse, rcode } = message;
  if (rcode !== "NOERROR" && rcode !== "NXDOMAIN") throw failureOf(server, rcode, `${type} of ${name}`);
  const question = questionOf(message);
  if (id !== request.id || !isResponse || question?.name !== name || question.type !== type)
    throw new ServerFailureError(describeServer(server), `answered another question than ${type} of ${name}`);
  if (message.truncated)
    throw new ServerFailureError(describeServer(server), "sent a truncated answer over TCP");
  return message;
}

/** The error for a response code that is a failure. `what` names what was asked for. */
export function failureOf(server: DnsServer, rcode: string, what: string): RefusedError | ServerFailureError {
  const where = describeServer(server);
  if (refusals.has(rcode)) return new RefusedError(where, rcode as RefusalReason, what);
  return new ServerFailureError(where, `answered ${rcode} to ${what}`);
}
