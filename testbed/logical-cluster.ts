import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { startKcp } from "./kcp.ts";
import type { Kcp, KcpOptions } from "./kcp.ts";
import { stopAll } from "./process.ts";
import type { Server } from "./process.ts";
import { writeRehomeConfig } from "./rehome-config.ts";
import { startTemporal } from "./temporal.ts";
import type { TemporalServer } from "./temporal.ts";

/** All servers that a move of logical clusters needs. */
export interface LogicalClusterTestbed {
  readonly dir: string;
  readonly kcp: Kcp;
  readonly temporal: TemporalServer;
  /** Path of the generated `rehome.yaml`. */
  readonly configFile: string;
  /** Every server, in the order in which they must be stopped. */
  readonly servers: readonly Server[];
  stop(): Promise<void>;
}

export interface LogicalClusterTestbedOptions extends Omit<KcpOptions, "dir"> {
  /** Everything is kept here: data, logs, certificates, kubeconfigs, `rehome.yaml`. */
  readonly dir: string;
  readonly temporalPort?: number;
  readonly temporalUiPort?: number;
}

/**
 * Starts kcp with two shards, and Temporal, and writes `<dir>/rehome.yaml`.
 * Takes about a minute, nearly all of it waits within kcp. When one server
 * fails, the others are stopped and the error names its log.
 */
export async function startLogicalClusterTestbed(
  options: LogicalClusterTestbedOptions,
): Promise<LogicalClusterTestbed> {
  const dir = resolve(options.dir);
  await mkdir(dir, { recursive: true });
  const { temporalPort, temporalUiPort, ...kcpOptions } = options;
  const temporal = await startTemporal({
    dir: join(dir, "temporal"),
    ...(temporalPort === undefined ? {} : { port: temporalPort }),
    ...(temporalUiPort === undefined ? {} : { uiPort: temporalUiPort }),
  });
  try {
    const kcp = await startKcp({ ...kcpOptions, dir: join(dir, "kcp") });
    const servers = [...kcp.servers, temporal.server];
    const configFile = await writeRehomeConfig(join(dir, "rehome.yaml"), temporal, kcp);
    return { dir, kcp, temporal, configFile, servers, stop: () => stopAll(servers) };
  } catch (error) {
    await temporal.server.stop();
    throw error;
  }
}
