import { readFile } from "node:fs/promises";
import type { NativeConnectionOptions } from "@temporalio/worker";
import { loadConfig } from "../sites/config.ts";
import type { SitesConfig } from "../sites/config.ts";

/** How to reach Temporal. */
export interface TemporalTarget {
  readonly namespace: string;
  readonly connection: NativeConnectionOptions;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Where Temporal is: what `rehome.yaml` says under `temporal`, and over it the variables that Temporal's own tools use.
 * This is the only file that reads the environment.
 *
 * @param path of `rehome.yaml`.
 * @throws Error that names the file, and the field with what is wrong.
 */
export async function temporalTarget(
  path: string,
  environment: Environment = process.env,
): Promise<TemporalTarget> {
  const settings = overridden(loadConfig(path).temporal, environment);
  const apiKey = environment["TEMPORAL_API_KEY"] ?? (await readTrimmed(settings.apiKeyFile));
  return {
    namespace: settings.namespace,
    connection: {
      address: settings.address,
      ...(settings.tls === undefined ? {} : { tls: await readTls(settings.tls) }),
      ...(apiKey === undefined ? {} : { apiKey }),
    },
  };
}

type Temporal = SitesConfig["temporal"];
type Tls = NonNullable<Temporal["tls"]>;

function overridden(settings: Temporal, environment: Environment): Temporal {
  const {
    TEMPORAL_ADDRESS: address = settings.address,
    TEMPORAL_NAMESPACE: namespace = settings.namespace,
    TEMPORAL_TLS_CA: ca = settings.tls?.ca,
    TEMPORAL_TLS_CERT: cert = settings.tls?.cert,
    TEMPORAL_TLS_KEY: key = settings.tls?.key,
    TEMPORAL_TLS_SERVER_NAME: serverName = settings.tls?.serverName,
  } = environment;
  const tls: Tls = { ca, cert, key, serverName };
  const secured = settings.tls !== undefined || Object.values(tls).some((value) => value !== undefined);
  return { ...settings, address, namespace, tls: secured ? tls : undefined };
}

async function readTrimmed(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : (await readFile(path, "utf8")).trim();
}

type TlsFiles = Exclude<NativeConnectionOptions["tls"], undefined>;

async function readTls({ ca, cert, key, serverName }: Tls): Promise<TlsFiles> {
  if ((cert === undefined) !== (key === undefined)) {
    throw new Error("temporal.tls: give cert and key, or neither");
  }
  const pair =
    cert === undefined || key === undefined
      ? {}
      : { clientCertPair: { crt: await readFile(cert), key: await readFile(key) } };
  return {
    ...(ca === undefined ? {} : { serverRootCACertificate: await readFile(ca) }),
    ...(serverName === undefined ? {} : { serverNameOverride: serverName }),
    ...pair,
  };
}
