import { existsSync, readFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { Client, Connection } from "@temporalio/client";
import type { ConnectionOptions } from "@temporalio/client";
import { loadConfig } from "../sites/config.ts";
import type { SitesConfig } from "../sites/config.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { explain } from "./problems.ts";
import type { Endpoint } from "./problems.ts";

/** What the command line says about where Temporal is. */
export interface ConnectionFlags {
  readonly config?: string;
  readonly address?: string;
  readonly namespace?: string;
}

/** The connection with all its sources weighed: the command line, then the environment, then the file. */
export interface Settings extends Endpoint {
  readonly tls?: NonNullable<ConnectionOptions["tls"]>;
  readonly apiKey?: string;
}

export const DEFAULT_CONFIG = "rehome.yaml";
const CONNECT_WITHIN_MS = 5000;

/** @throws CommandError for a configuration that cannot be read. */
export function settingsFrom(flags: ConnectionFlags, env: NodeJS.ProcessEnv): Settings {
  const { address, namespace, tls, apiKeyFile } = temporalSection(flags.config);
  const apiKey = env["TEMPORAL_API_KEY"] ?? (apiKeyFile === undefined ? undefined : readText(apiKeyFile).trim());
  return {
    address: flags.address ?? env["TEMPORAL_ADDRESS"] ?? address,
    namespace: flags.namespace ?? env["TEMPORAL_NAMESPACE"] ?? namespace,
    ...(tls === undefined ? {} : { tls: tlsFrom(tls) }),
    ...(apiKey === undefined || apiKey === "" ? {} : { apiKey }),
  };
}

type TemporalSection = SitesConfig["temporal"];

function temporalSection(path: string | undefined): TemporalSection {
  const file = path ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined);
  if (file === undefined) return { address: "127.0.0.1:7233", namespace: "default" };
  try {
    return loadConfig(file).temporal;
  } catch (error) {
    throw new CommandError(EXIT.usage, (error as Error).message, error);
  }
}

function tlsFrom({ ca, cert, key, serverName }: NonNullable<TemporalSection["tls"]>): NonNullable<Settings["tls"]> {
  if ((cert === undefined) !== (key === undefined)) {
    throw new CommandError(EXIT.usage, "temporal.tls: cert and key go together; give both or neither");
  }
  return {
    ...(ca === undefined ? {} : { serverRootCACertificate: readBytes(ca) }),
    ...(cert === undefined || key === undefined
      ? {}
      : { clientCertPair: { crt: readBytes(cert), key: readBytes(key) } }),
    ...(serverName === undefined ? {} : { serverNameOverride: serverName }),
  };
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new CommandError(EXIT.usage, `cannot read ${file}: ${(error as Error).message}`, error);
  }
}

function readText(file: string): string {
  return readBytes(file).toString("utf8");
}

/** Who sits at this command line, for the history. */
export function operator(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run under a number that has no name.
    return process.env["USER"] ?? `user ${process.getuid?.() ?? "unknown"}`;
  }
}

/**
 * Runs `use` with a client, and explains what goes wrong between it and the server.
 *
 * @throws CommandError in plain words; anything else is a defect.
 */
export async function withClient<T>(settings: Settings, use: (client: Client) => Promise<T>): Promise<T> {
  let connection: Connection | undefined;
  try {
    connection = await connect(settings);
    const { namespace } = settings;
    return await use(new Client({ connection, namespace, identity: `rehome CLI of ${operator()}@${hostname()}` }));
  } catch (error) {
    throw explain(error, settings);
  } finally {
    await connection?.close();
  }
}

async function connect({ address, tls, apiKey }: Settings): Promise<Connection> {
  return await Connection.connect({
    address,
    connectTimeout: CONNECT_WITHIN_MS,
    ...(tls === undefined ? {} : { tls }),
    ...(apiKey === undefined ? {} : { apiKey }),
  });
}
