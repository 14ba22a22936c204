import { Resolver } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { now } from "../../workload/caller.ts";

export interface Resolution {
  readonly addresses: readonly string[];
  /** For how long the answer may be kept, in seconds. */
  readonly ttlSeconds: number;
}

/** Asks for the A records of a name. */
export type Resolve = (name: string) => Promise<Resolution>;

/** A name that turned out to have other addresses than before. */
export interface AddressChange {
  /** Ms since the epoch. */
  readonly at: number;
  readonly name: string;
  readonly addresses: readonly string[];
}

/**
 * Asks the given DNS servers, the next one where one does not answer.
 * @param servers `127.0.0.1:5353`
 */
export function dnsResolve(servers: readonly string[]): Resolve {
  const resolver = new Resolver({ timeout: 1_000, tries: 2 });
  resolver.setServers([...servers]);
  return async (name) => {
    const records = await resolver.resolve4(name, { ttl: true });
    return {
      addresses: records.map(({ address }) => address),
      ttlSeconds: Math.min(...records.map(({ ttl }) => ttl)),
    };
  };
}

/** Answers a socket that asks for one address or for all of them. */
export function answerLookup(
  addresses: readonly string[],
  ...[options, callback]: ParametersAfterName<LookupFunction>
): void {
  const all = addresses.map((address) => ({ address, family: 4 }));
  if (options.all === true) callback(null, all);
  else callback(null, all[0]?.address ?? "", 4);
}

type ParametersAfterName<F> = F extends (name: string, ...rest: infer Rest) => void ? Rest : never;

interface Cached {
  readonly addresses: readonly string[];
  readonly expiresAt: number;
}

/**
 * What a machine's resolver does for its programs: keeps each answer for as
 * long as its TTL allows, and not a moment longer. Programs ask it whenever
 * they connect anew; connections that stand are theirs to keep.
 */
export class CachingResolver {
  readonly changes: AddressChange[] = [];
  readonly #resolve: Resolve;
  readonly #cache = new Map<string, Cached>();
  readonly #underWay = new Map<string, Promise<readonly string[]>>();

  constructor(resolve: Resolve) {
    this.#resolve = resolve;
  }

  /** @throws the DNS client's error */
  async addressesOf(name: string): Promise<readonly string[]> {
    const cached = this.#cache.get(name);
    if (cached !== undefined && cached.expiresAt > performance.now()) return cached.addresses;
    let answer = this.#underWay.get(name);
    if (answer === undefined) {
      answer = this.#ask(name).finally(() => this.#underWay.delete(name));
      this.#underWay.set(name, answer);
    }
    return await answer;
  }

  /** For `lookup` of sockets and agents. */
  readonly lookup: LookupFunction = (name, options, callback) => {
    void this.#lookUp(name, options, callback);
  };

  async #lookUp(...[name, options, callback]: Parameters<LookupFunction>): Promise<void> {
    let addresses: readonly string[];
    try {
      addresses = await this.addressesOf(name);
    } catch (error) {
      callback(error as NodeJS.ErrnoException, "", 4);
      return;
    }
    answerLookup(addresses, options, callback);
  }

  async #ask(name: string): Promise<readonly string[]> {
    const askedAt = performance.now();
    const { addresses, ttlSeconds } = await this.#resolve(name);
    const before = this.#cache.get(name)?.addresses;
    if (before === undefined || before.toSorted().join() !== addresses.toSorted().join()) {
      this.changes.push({ at: now(), name, addresses });
    }
    this.#cache.set(name, { addresses, expiresAt: askedAt + ttlSeconds * 1000 });
    return addresses;
  }
}
