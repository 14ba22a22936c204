import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Connection } from "@temporalio/client";
import { freePort, requireFree } from "./ports.ts";
import { Server } from "./process.ts";
import { findProgram } from "./programs/find.ts";

export interface TemporalServer {
  /** `host:port` of the gRPC frontend. */
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string;
  /** SQLite file that holds the histories; it survives a restart of the server. */
  readonly databaseFile: string;
  readonly server: Server;
}

const namespace = "default";

/**
 * Starts Temporal's development server with its web UI on 127.0.0.1, and waits
 * until its `default` namespace serves.
 * @param options.dir where the database and the log (`temporal.log`) are kept
 * @param options.port,options.uiPort free ones are taken when not given
 */
export async function startTemporal(options: {
  dir: string;
  port?: number;
  uiPort?: number;
}): Promise<TemporalServer> {
  const command = await findProgram("temporal");
  if (options.port !== undefined) await requireFree(options.port, "Temporal");
  if (options.uiPort !== undefined) await requireFree(options.uiPort, "Temporal's web UI");
  const [port, uiPort] = [options.port ?? (await freePort()), options.uiPort ?? (await freePort())];
  const [address, databaseFile] = [`127.0.0.1:${port}`, join(options.dir, "temporal.db")];
  mkdirSync(options.dir, { recursive: true });
  const server = new Server({
    name: "Temporal",
    command,
    arguments: [
      "server",
      "start-dev",
      "--headless=false",
      "--ip=127.0.0.1",
      "--ui-ip=127.0.0.1",
      `--port=${port}`,
      `--ui-port=${uiPort}`,
      // Without a fixed port it draws one at start, which may by then be another server's.
      `--metrics-port=${await freePort()}`,
      `--db-filename=${databaseFile}`,
      "--log-level=warn",
    ],
    logFile: join(options.dir, "temporal.log"),
    probe: () => describeNamespace(address),
    readyWithinMs: 240_000,
  });
  await server.start();
  return { address, namespace, uiUrl: `http://127.0.0.1:${uiPort}`, databaseFile, server };
}

async function describeNamespace(address: string): Promise<void> {
  const connection = await Connection.connect({ address, connectTimeout: 2_000 });
  try {
    await connection.workflowService.describeNamespace({ namespace });
  } finally {
    await connection.close();
  }
}
