import { isIPv4, isIPv6 } from "node:net";

/** Record types that lead clients to a server. */
export type AddressType = "A" | "AAAA" | "CNAME";

export interface DnsServer {
  /** An IP address, or a name that the system's resolver knows. */
  readonly host: string;
  readonly port: number;
}

/** Reads `host:port`, `[address]:port` or a host alone (port 53). @throws RangeError */
export function parseServer(text: string): DnsServer {
  const bracketed = /^\[([0-9a-f:.]+)\](?::(\d+))?$/i.exec(text);
  const [, host, port = "53"] = bracketed ?? /^([^\s:]+)(?::(\d+))?$/.exec(text) ?? [];
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535)
    throw new RangeError(`${JSON.stringify(text)} is not a DNS server: give host:port`);
  return { host, port: Number(port) };
}

/** The server for messages: `127.0.0.1:53`, `[::1]:53`. */
export function describeServer({ host, port }: DnsServer): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/**
 * A name in the one form in which names are compared: lower case, no dot at its end (RFC 4343). Only names of host
 * names' characters and `_` and `*`, which need no escapes. @throws RangeError
 */
export function canonicalName(name: string): string {
  const canonical = name.toLowerCase().replace(/\.$/, "");
  // RFC 1035 section 2.3.4: a label has at most 63 octets; a name has 255 with its length octets.
  const valid = canonical.length <= 253 && /^[a-z0-9_*-]{1,63}(\.[a-z0-9_*-]{1,63})*$/.test(canonical);
  if (!valid) throw new RangeError(`${JSON.stringify(name)} is not a valid DNS name`);
  return canonical;
}

/** A record's value in the one form in which values are compared. @throws RangeError when it does not fit the type */
export function canonicalValue(type: AddressType, value: string): string {
  if (type === "CNAME") return canonicalName(value);
  if (type === "A" && isIPv4(value)) return value;
  // The URL parser writes IPv6 addresses as RFC 5952 demands.
  if (type === "AAAA" && isIPv6(value) && !value.includes("%"))
    return new URL(`http://[${value}]`).hostname.slice(1, -1);
  throw new RangeError(`${JSON.stringify(value)} is not a value of type ${type}`);
}

/** The set of values: canonical, sorted, each once. @throws RangeError */
export function canonicalValues(type: AddressType, values: readonly string[]): string[] {
  return [...new Set(values.map((value) => canonicalValue(type, value)))].sort();
}

/** Whether two sets of canonical values are one. */
export function sameValues(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((value, index) => value === right[index]);
}
