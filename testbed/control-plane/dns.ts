import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { startBind } from "../bind.ts";
import type { BindServers } from "../bind.ts";
import { inside } from "../network/places.ts";
import type { Place } from "../network/places.ts";
import { findProgram } from "../programs/find.ts";
import { apiServerName, dnsZone } from "./names.ts";

export interface DnsOptions {
  readonly dir: string;
  /** Address that the DNS name of the control plane has at first. */
  readonly address: string;
  readonly ttlSeconds: number;
  /** Where the name is looked up at the operator's address and port 53. */
  readonly shoot: Place;
}

/** Starts the servers of the zone with the record of the control plane, and lets the shoot ask the first of them. */
export async function startDns({ dir, address, ttlSeconds, shoot }: DnsOptions): Promise<BindServers> {
  const bind = await startBind({
    dir,
    zone: dnsZone,
    records: [`${apiServerName}. ${ttlSeconds} IN A ${address}`],
    addresses: [shoot.operatorAddress],
  });
  await leadToServer(shoot, Number(bind.servers[0].split(":")[1]));
  return bind;
}

/** A resolver of C programs asks port 53 only, where the servers, which anybody may start, do not listen. */
async function leadToServer(shoot: Place, port: number): Promise<void> {
  const server = shoot.operatorAddress;
  const table = [
    "table ip rehome-dns {",
    "  chain output {",
    "    type nat hook output priority -100",
    ...["udp", "tcp"].map(
      (protocol) => `    ip daddr ${server} ${protocol} dport 53 dnat to ${server}:${port}`,
    ),
    "  }",
    "}",
  ].join("\n");
  const { command, arguments: args } = inside(shoot, await findProgram("nft"), [table]);
  await promisify(execFile)(command, args);
}
