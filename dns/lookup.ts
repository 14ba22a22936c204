import { Resolver } from "node:dns";
import { lookup } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { callbackify } from "node:util";
import { describeServer } from "./names.ts";
import type { DnsServer } from "./names.ts";

/**
 * A `lookup` for sockets that asks these servers each time a connection is opened, so that no cache in between hides
 * what a record has become. IPv4 first.
 */
export function lookupAt(servers: readonly DnsServer[]): LookupFunction {
  return (hostname, options, callback) => {
    withResolver(servers, (error, resolver) => {
      if (error === null) resolve(resolver, hostname, options, callback);
      else callback(error, "", 4);
    });
  };
}

/** A resolver takes addresses only, and the name of a server may come to mean another. */
async function resolverAt(servers: readonly DnsServer[]): Promise<Resolver> {
  const found = servers.map(async ({ host, port }) => ({ host: (await lookup(host)).address, port }));
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  resolver.setServers((await Promise.all(found)).map(describeServer));
  return resolver;
}

const withResolver = callbackify(resolverAt);

function resolve(resolver: Resolver, ...[hostname, options, callback]: Parameters<LookupFunction>): void {
  resolver.resolve4(hostname, (error, addresses) => {
    if (error === null) answer(addresses, 4, options, callback);
    else
      resolver.resolve6(hostname, (none, others) => {
        if (none === null) answer(others, 6, options, callback);
        else callback(error, "", 4);
      });
  });
}

function answer(
  addresses: readonly string[],
  family: 4 | 6,
  { all = false }: Parameters<LookupFunction>[1],
  callback: Parameters<LookupFunction>[2],
): void {
  if (all)
    callback(
      null,
      addresses.map((address) => ({ address, family })),
    );
  else callback(null, addresses[0] ?? "", family);
}
