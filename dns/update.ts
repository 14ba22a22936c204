import { LostRaceError, RefusedError, ServerFailureError, UnreachableError } from "./errors.ts";
import { decode, encodeUpdate, MalformedMessageError } from "./message.ts";
import type { Message, UpdateMessage } from "./message.ts";
import { canonicalName, canonicalValues, describeServer, sameValues } from "./names.ts";
import type { AddressType, DnsServer } from "./names.ts";
import { failureOf, query } from "./query.ts";
import type { RecordValues } from "./query.ts";
import { exchangeTcp, NoAnswerError } from "./transport.ts";
import { sign, verify } from "./tsig.ts";
import type { TsigKey } from "./tsig.ts";

export interface UpdateOptions {
  /** The primary first: it is the one that must accept. The next is tried where one is unreachable. */
  readonly servers: readonly DnsServer[];
  readonly zone: string;
  readonly name: string;
  readonly type: AddressType;
  readonly tsig: TsigKey;
  /** Wait for one answer, in ms. Default 10 s: the server may have to ask its primary. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** The clock that signatures are made with, ms since the epoch. Default `Date.now`. */
  readonly now?: () => number;
}

export interface ReplaceInput extends UpdateOptions {
  /** What the record holds now: all of its values. */
  readonly from: { readonly values: readonly string[] };
  readonly to: RecordValues;
  /** Called right before each update is sent; what it throws ends the replacement. */
  readonly permit?: () => Promise<void>;
}

export interface SetTtlInput extends UpdateOptions {
  /** What the record holds, before and after: all of its values. */
  readonly values: readonly string[];
  readonly ttlSeconds: number;
}

export interface UpdateResult {
  /** False when the record was as wanted already. */
  readonly changed: boolean;
  /** The record before, as the server told just before the update; without values where it told of none. */
  readonly previous: RecordValues;
  /** The server that accepted, `host:port`. */
  readonly server: string;
}

const defaultTimeoutMs = 10_000;
/** The largest TTL (RFC 2181 section 8). */
const maxTtlSeconds = 2 ** 31 - 1;
/** Somebody who changes the record to and fro between our reads and updates must not keep us here. */
const maxRounds = 3;

/**
 * Replaces all values and the TTL of a record by one RFC 2136 update, which the server carries out as a whole and only
 * while the record holds exactly `from`. Repeating it is safe: a record that is as wanted already is left alone, also
 * after an answer that got lost. It tells nothing about the other authoritative servers: see `awaitAuthoritative`.
 * @throws LostRaceError when the record holds something else; RefusedError, ServerFailureError, UnreachableError;
 *   RangeError for a name or value that is none; the signal's reason. After a ServerFailureError or UnreachableError
 *   the outcome is unknown.
 */
export async function replaceAddresses(input: ReplaceInput): Promise<UpdateResult> {
  const change = changeOf(input);
  const unreachable: string[] = [];
  for (const server of input.servers) {
    try {
      return await replaceAt(server, change, input);
    } catch (error) {
      // A secondary refuses updates, which tells nothing about the primary that could not be reached.
      if (error instanceof UnreachableError) unreachable.push(...error.attempts);
      else if (error instanceof RefusedError && unreachable.length > 0) unreachable.push(error.message);
      else throw error;
    }
  }
  throw new UnreachableError(unreachable);
}

/** Changes the TTL of a record that holds exactly `values`. Otherwise as {@link replaceAddresses}. */
export async function setTtl(input: SetTtlInput): Promise<UpdateResult> {
  const { values, ttlSeconds, ...rest } = input;
  return await replaceAddresses({ ...rest, from: { values }, to: { values, ttlSeconds } });
}

export interface PermissionInput extends UpdateOptions {
  /** What the record holds: all of its values. */
  readonly values: readonly string[];
}

/**
 * Finds out whether the first server would let this key change the record, by an update that changes nothing: servers
 * check signature and permission all the same (RFC 2136 section 3.3). Those behind it may be secondaries.
 * @throws as {@link replaceAddresses}.
 */
export async function proveUpdatable(input: PermissionInput): Promise<void> {
  const { servers, zone, name, type, values } = input;
  const [server] = servers;
  if (server === undefined) throw new RangeError("no DNS server is given");
  const from = canonicalValues(type, values);
  const change = { zone: canonicalName(zone), name: canonicalName(name), type, from, to: undefined };
  if ((await send(server, change, input)) === "NOERROR") return;
  const found = await query(server, name, type, { signal: input.signal });
  throw new LostRaceError(describeServer(server), `${type} of ${name}`, from, found.values);
}

type Change = UpdateMessage & { readonly to: RecordValues };

function changeOf({ zone, name, type, from, to }: ReplaceInput): Change {
  const change = {
    zone: canonicalName(zone),
    name: canonicalName(name),
    type,
    from: canonicalValues(type, from.values),
    to: { values: canonicalValues(type, to.values), ttlSeconds: to.ttlSeconds },
  };
  if (change.from.length === 0 || change.to.values.length === 0)
    throw new RangeError(`a replacement of ${change.name} needs old and new values`);
  if (type === "CNAME" && change.to.values.length > 1)
    throw new RangeError(`${change.name} cannot have several CNAMEs`);
  if (!Number.isInteger(to.ttlSeconds) || to.ttlSeconds < 0 || to.ttlSeconds > maxTtlSeconds)
    throw new RangeError(`${to.ttlSeconds} is no TTL in seconds`);
  return change;
}

async function replaceAt(server: DnsServer, change: Change, input: ReplaceInput): Promise<UpdateResult> {
  const { name, type, from, to } = change;
  const read = async () => {
    const { values, ttlSeconds } = await query(server, name, type, { signal: input.signal });
    return { values, ttlSeconds };
  };
  let previous = await read();
  for (let round = 0; round < maxRounds; round++) {
    const hasNewValues = sameValues(previous.values, to.values);
    if (hasNewValues && previous.ttlSeconds === to.ttlSeconds)
      return { changed: false, previous, server: describeServer(server) };
    // What the read shows decides nothing here, for it may come from a secondary that lags: the prerequisite decides.
    const expected = hasNewValues ? to.values : from;
    await input.permit?.();
    const rcode = await send(server, { ...change, from: expected }, input);
    if (rcode === "NOERROR") return { changed: true, previous, server: describeServer(server) };
    previous = await read();
    if (!sameValues(previous.values, from) && !sameValues(previous.values, to.values)) break;
  }
  throw new LostRaceError(describeServer(server), `${type} of ${name}`, from, previous.values);
}

async function send(
  server: DnsServer,
  change: UpdateMessage,
  input: UpdateOptions,
): Promise<"NOERROR" | "NXRRSET"> {
  const { tsig, timeoutMs = defaultTimeoutMs, signal, now = Date.now } = input;
  const where = describeServer(server);
  const request = sign(encodeUpdate(change), tsig, now());
  try {
    const answer = decode(await exchangeTcp(server, request, { timeoutMs, signal }));
    if (answer.id !== request.id || !answer.isResponse)
      throw new ServerFailureError(where, "sent what is no answer to the update");
    const verdict = verify(answer, request, tsig, now());
    return outcomeOf(server, answer, verdict, { change, tsig, now: now() });
  } catch (error) {
    if (error instanceof NoAnswerError) throw new UnreachableError([error.message]);
    if (error instanceof MalformedMessageError) throw new ServerFailureError(where, error.message);
    throw error;
  }
}

function outcomeOf(
  server: DnsServer,
  { rcode }: Message,
  verdict: ReturnType<typeof verify>,
  { change, tsig, now }: { change: UpdateMessage; tsig: TsigKey; now: number },
): "NOERROR" | "NXRRSET" {
  const where = describeServer(server);
  if (verdict.kind === "refused") {
    const { error, serverTime } = verdict;
    const aheadSeconds = serverTime === undefined ? undefined : Math.round(serverTime - now / 1000);
    const clocks = aheadSeconds === undefined ? "" : `; its clock minus ours is ${aheadSeconds} s`;
    throw new RefusedError(where, error, `key ${tsig.name} (${tsig.algorithm})${clocks}`);
  }
  // No success, and no lost race, on the word of an answer that anybody may have written.
  if (rcode !== "NOERROR" && rcode !== "NXRRSET")
    throw failureOf(server, rcode, `update of ${change.name} in zone ${change.zone} with key ${tsig.name}`);
  if (verdict.kind === "invalid") throw new ServerFailureError(where, verdict.why);
  return rcode;
}
