import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseServer } from "../../dns/names.ts";
import type { DnsServer } from "../../dns/names.ts";
import { readTsigKey } from "../../dns/tsig.ts";
import type { TsigKey } from "../../dns/tsig.ts";
import { startBind } from "../../testbed/bind.ts";
import type { BindServers, TsigAlgorithm } from "../../testbed/bind.ts";
import { findProgram } from "../../testbed/programs/find.ts";

export const zone = "rehome.example";

export interface DnsFixture {
  readonly bind: BindServers;
  readonly servers: readonly [primary: DnsServer, secondary: DnsServer];
  readonly tsig: TsigKey;
  /** Makes a record (name relative to the zone) and returns its full name. */
  create(label: string, type: string, ttlSeconds: number, ...values: string[]): Promise<string>;
  /** Sends an update with nsupdate, as somebody else would. */
  nsupdate(...commands: string[]): Promise<void>;
  stop(): Promise<void>;
}

export async function startDns(algorithm: TsigAlgorithm = "hmac-sha256"): Promise<DnsFixture> {
  const dir = await mkdtemp(join(tmpdir(), "rehome-dns-"));
  const bind = await startBind({ dir, zone, records: ["api.demo 120 IN A 10.75.1.16"], algorithm });
  const [primary, secondary] = bind.servers.map(parseServer) as [DnsServer, DnsServer];
  const tsig = await readTsigKey(bind.tsig);
  const nsupdate = (...commands: string[]) => runNsupdate(primary, tsig, commands);
  return {
    bind,
    servers: [primary, secondary],
    tsig,
    nsupdate,
    create: async (label, type, ttlSeconds, ...values) => {
      const name = `${label}.${zone}`;
      await nsupdate(...values.map((value) => `update add ${name} ${ttlSeconds} ${type} ${value}`));
      return name;
    },
    stop: async () => {
      await bind.stop();
      await rm(dir, { recursive: true });
    },
  };
}

async function runNsupdate(server: DnsServer, tsig: TsigKey, commands: readonly string[]): Promise<void> {
  const lines = [
    `server ${server.host} ${server.port}`,
    `zone ${zone}`,
    `key ${tsig.algorithm}:${tsig.name} ${tsig.secret.toString("base64")}`,
    ...commands,
    "send",
    "",
  ];
  const program = await findProgram("nsupdate");
  await new Promise<void>((resolve, reject) => {
    const child = execFile(program, ["-v"], (error) => (error ? reject(error) : resolve()));
    child.stdin?.end(lines.join("\n"));
  });
}
