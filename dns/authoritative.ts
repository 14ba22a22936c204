import { setTimeout as delay } from "node:timers/promises";
import { LaggingError } from "./errors.ts";
import type { Lag } from "./errors.ts";
import { canonicalValues, describeServer, sameValues } from "./names.ts";
import type { AddressType, DnsServer } from "./names.ts";
import { query, zoneSerial } from "./query.ts";
import type { RecordValues } from "./query.ts";

export interface AwaitInput {
  /** All authoritative servers of the zone. */
  readonly servers: readonly DnsServer[];
  readonly zone: string;
  readonly name: string;
  readonly type: AddressType;
  readonly expected: RecordValues;
  /** How long to wait before a {@link LaggingError}, in ms. Without it only the signal ends the wait. */
  readonly timeoutMs?: number;
  /** Pause between two rounds, in ms. Default 500: DNS tells nobody but secondaries of a change. */
  readonly pollEveryMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Told after each round that some servers lagged in. */
  readonly onLag?: (lagging: readonly Lag[]) => void;
}

/**
 * Waits until every server, in one round, answers the expected values with the expected TTL for itself. A server that
 * is unreachable or refuses counts as lagging, since it would mislead clients when it comes back.
 * @throws LaggingError when the time is up, or the signal's reason
 */
export async function awaitAuthoritative(input: AwaitInput): Promise<void> {
  const { servers, name, type, timeoutMs, pollEveryMs = 500, signal, onLag } = input;
  const deadline = performance.now() + (timeoutMs ?? Infinity);
  const expected = { ...input.expected, values: canonicalValues(type, input.expected.values) };
  const heard = new Set<DnsServer>();
  for (;;) {
    const lags = await Promise.all(servers.map((server) => lagOf(server, { ...input, expected, heard })));
    const lagging = lags.filter((lag) => lag !== undefined);
    if (lagging.length === 0) return;
    onLag?.(lagging);
    if (performance.now() + pollEveryMs > deadline) throw new LaggingError(`${type} of ${name}`, lagging);
    await delay(pollEveryMs, undefined, { signal }).catch(() => signal?.throwIfAborted());
  }
}

async function lagOf(
  server: DnsServer,
  input: AwaitInput & { readonly heard: Set<DnsServer> },
): Promise<Lag | undefined> {
  const { zone, name, type, expected, signal, heard } = input;
  // The next round is the second attempt.
  const options = { attempts: 1, signal };
  try {
    const answer = await query(server, name, type, options);
    heard.add(server);
    const { values, ttlSeconds, authoritative } = answer;
    if (authoritative && sameValues(values, expected.values) && ttlSeconds === expected.ttlSeconds)
      return undefined;
    const serial = (await zoneSerial(server, zone, options)) ?? "none";
    const held = answer.status === "found" ? `${values.join(", ")} with TTL ${ttlSeconds}` : answer.status;
    const source = authoritative ? "" : ", without authority";
    return {
      server: describeServer(server),
      answers: `answers ${held} (serial ${serial}${source})`,
      silent: false,
    };
  } catch (error) {
    signal?.throwIfAborted();
    return {
      server: describeServer(server),
      answers: `fails: ${(error as Error).message}`,
      silent: !heard.has(server),
    };
  }
}
