import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Resolver } from "node:dns/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePorts } from "./ports.ts";
import { Server, stopAll } from "./process.ts";
import { findProgram } from "./programs/find.ts";

export type TsigAlgorithm = "hmac-sha256" | "hmac-sha384" | "hmac-sha512";

/** A TSIG key as rehome's configuration names it; the secret is in the file alone, in base64. */
export interface TsigKeyFile {
  readonly name: string;
  readonly algorithm: TsigAlgorithm;
  readonly secretFile: string;
}

export interface BindOptions {
  /**
   * Data, configuration and logs go to `<dir>/primary` and `<dir>/secondary`, which are emptied first, the key's secret
   * to `<dir>/tsig.key`.
   */
  readonly dir: string;
  readonly zone: string;
  /** The zone's first records, in the words of a zone file, e.g. `api.demo 120 A 10.75.1.16`. */
  readonly records: readonly string[];
  /** Default hmac-sha256. */
  readonly algorithm?: TsigAlgorithm;
  /**
   * Further addresses to serve at, besides 127.0.0.1 and at the same ports, e.g. of a link into a network namespace.
   * named uses only addresses that an interface has (so 127.0.0.2 is none), and sees new ones at once.
   */
  readonly addresses?: readonly string[];
}

/**
 * The authoritative servers of one zone that is changed by RFC 2136 updates: a primary and a secondary, which the
 * primary notifies, on two ports. Each may be stopped, killed and started again; the zone survives.
 */
export interface BindServers {
  readonly zone: string;
  readonly primary: Server;
  readonly secondary: Server;
  /** `127.0.0.1:port` of the primary, then of the secondary. */
  readonly servers: readonly [primary: string, secondary: string];
  readonly tsig: TsigKeyFile;
  /** Makes the running primary refuse transfers: the secondary goes on serving what it has. */
  holdTransfers(): Promise<void>;
  /** The secondary catches up within about two seconds. */
  releaseTransfers(): Promise<void>;
  stop(): Promise<void>;
}

const host = "127.0.0.1";
const keyName = "rehome";
const reloadWithinMs = 10_000;

/** Starts a primary and a secondary and waits until both serve the zone. */
export async function startBind(options: BindOptions): Promise<BindServers> {
  const bind = await prepareBind(options);
  try {
    await bind.primary.start();
    await bind.secondary.start();
  } catch (error) {
    await bind.stop();
    throw error;
  }
  return bind;
}

/** Generates a secret in a file that only this user reads. */
export function writeTsigKey(secretFile: string, name: string, algorithm: TsigAlgorithm): TsigKeyFile {
  const secret = randomBytes(algorithm === "hmac-sha512" ? 64 : 32).toString("base64");
  writeFileSync(secretFile, `${secret}\n`, { mode: 0o600 });
  return { name, algorithm, secretFile };
}

async function prepareBind(options: BindOptions): Promise<BindServers> {
  const { dir, zone, algorithm = "hmac-sha256", addresses = [] } = options;
  const folders = { primary: join(dir, "primary"), secondary: join(dir, "secondary") };
  for (const folder of Object.values(folders)) {
    // A journal of an earlier run does not fit the new zone: named would refuse to load it.
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  const [command, [primaryPort, secondaryPort]] = await Promise.all([findProgram("named"), freePorts(2)]);
  const ports = { primary: primaryPort as number, secondary: secondaryPort as number };
  const tsig = writeTsigKey(join(dir, "tsig.key"), keyName, algorithm);
  writeFileSync(join(folders.primary, "zone.db"), zoneFile(options.records));
  const keyed = `key "${keyName}"`;
  const write = (role: "primary" | "secondary", zoneOptions: readonly string[]) => {
    const where = { folder: folders[role], addresses: [host, ...addresses], port: ports[role] };
    writeConfiguration({ ...where, tsig, zone, zoneOptions });
  };
  const writePrimary = (transfers: string) =>
    write("primary", [
      "type primary",
      `allow-update { ${keyed}; }`,
      "notify explicit",
      `also-notify { ${host} port ${ports.secondary}; }`,
      `allow-transfer { ${transfers}; }`,
    ]);
  writePrimary(keyed);
  write("secondary", [
    "type secondary",
    `primaries { ${host} port ${ports.primary} ${keyed}; }`,
    "notify no",
  ]);
  const primary = server(command, "primary", folders.primary, { zone, port: ports.primary });
  const secondary = server(command, "secondary", folders.secondary, { zone, port: ports.secondary });
  const rewrite = async (transfers: string) => {
    writePrimary(transfers);
    await reload(primary);
  };
  return {
    zone,
    primary,
    secondary,
    servers: [`${host}:${ports.primary}`, `${host}:${ports.secondary}`],
    tsig,
    holdTransfers: () => rewrite("none"),
    releaseTransfers: () => rewrite(keyed),
    stop: () => stopAll([secondary, primary]),
  };
}

function server(
  command: string,
  role: "primary" | "secondary",
  folder: string,
  { zone, port }: { zone: string; port: number },
): Server {
  return new Server({
    name: `named ${role}`,
    command,
    // In the foreground, with its log on stderr; one thread is enough for one zone.
    arguments: ["-4", "-g", "-n", "1", "-c", join(folder, "named.conf")],
    logFile: join(folder, "named.log"),
    probe: (signal) => probeZone(port, zone, signal),
    readyWithinMs: 240_000,
  });
}

/** Makes named read its configuration again; only its log tells when it has. */
async function reload(named: Server): Promise<void> {
  const reloads = () => readFileSync(named.spec.logFile, "utf8").split("reloading configuration ").length;
  const before = reloads();
  const deadline = performance.now() + reloadWithinMs;
  named.signal("SIGHUP");
  while (reloads() === before) {
    if (performance.now() > deadline) throw new Error(`${named.spec.name} did not reload its configuration`);
    await delay(20);
  }
}

interface Configuration {
  readonly folder: string;
  readonly addresses: readonly string[];
  readonly port: number;
  readonly tsig: TsigKeyFile;
  readonly zone: string;
  readonly zoneOptions: readonly string[];
}

function writeConfiguration(configuration: Configuration): void {
  const { folder, addresses, port, tsig, zone, zoneOptions } = configuration;
  const options = [
    `directory "${folder}"`,
    `listen-on port ${port} { ${addresses.join("; ")}; }`,
    "listen-on-v6 { none; }",
    "pid-file none",
    "session-keyfile none",
    "recursion no",
    "empty-zones-enable no",
    "dnssec-validation no",
    // Defaults are made for a network of strangers and would delay a notification by five seconds.
    "notify-delay 0",
    "notify-rate 1000",
    "serial-query-rate 1000",
    "min-refresh-time 1",
    "min-retry-time 1",
    // A test may send more updates than a server of the world gets in a day.
    "max-journal-size 1m",
  ];
  writeFileSync(
    join(folder, "named.conf"),
    [
      `key "${tsig.name}" { algorithm ${tsig.algorithm}; secret "${secretOf(tsig)}"; };`,
      `options {\n${statements(options)}};`,
      // The control channel of rndc, which would need a port and a key of its own.
      "controls { };",
      `zone "${zone}" {\n${statements(['file "zone.db"', ...zoneOptions])}};\n`,
    ].join("\n"),
    { mode: 0o600 },
  );
}

function statements(lines: readonly string[]): string {
  return lines.map((line) => `  ${line};\n`).join("");
}

function secretOf(tsig: TsigKeyFile): string {
  return readFileSync(tsig.secretFile, "utf8").trim();
}

/** Refresh and retry are short: a secondary that missed a notification catches up soon. */
function zoneFile(records: readonly string[]): string {
  return [
    "$TTL 60",
    "@ IN SOA ns1 hostmaster 1 2 1 86400 5",
    "@ IN NS ns1",
    "@ IN NS ns2",
    `ns1 IN A ${host}`,
    `ns2 IN A ${host}`,
    ...records,
    "",
  ].join("\n");
}

async function probeZone(port: number, zone: string, signal: AbortSignal): Promise<void> {
  const resolver = new Resolver({ timeout: 1_000, tries: 1 });
  resolver.setServers([`${host}:${port}`]);
  signal.addEventListener("abort", () => resolver.cancel(), { once: true });
  await resolver.resolveSoa(zone);
}
