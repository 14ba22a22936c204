import { NativeConnection, Runtime } from "@temporalio/worker";
import type { WorkerDeploymentOptions } from "@temporalio/worker";
import { Command, InvalidArgumentError } from "commander";
import type { Logger as Pino } from "pino";
import { createActivities } from "../activities/index.ts";
import { loadSites } from "../sites/sites.ts";
import { readBundle } from "./bundle.ts";
import { temporalTarget } from "./config.ts";
import type { TemporalTarget } from "./config.ts";
import { serveHealth } from "./health.ts";
import { createLogger, temporalLogger } from "./logging.ts";
import { ensureSearchAttributes } from "./search-attributes.ts";
import { startWorkers } from "./start.ts";

interface Flags {
  readonly config: string;
  readonly listen: string;
  readonly healthPort?: number;
  readonly metricsPort?: number;
  readonly logLevel: string;
  readonly maxTransfers?: number;
  readonly shutdownGraceMs?: number;
  readonly deployment?: string;
  readonly buildId?: string;
}

function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("give a whole number");
}

function readFlags(words: readonly string[]): Flags {
  return new Command("worker")
    .description("Runs moves: workflows and steps on one queue, bulk transfers on another.")
    .requiredOption("--config <file>", "rehome.yaml: where the sites and Temporal are")
    .option("--listen <address>", "address of the ports below", "0.0.0.0")
    .option("--health-port <port>", "serves /healthz and /readyz", wholeNumber)
    .option("--metrics-port <port>", "serves Prometheus metrics at /metrics", wholeNumber)
    .option("--log-level <level>", "trace, debug, info, warn or error", "info")
    .option("--max-transfers <count>", "bulk transfers at once in this process", wholeNumber)
    .option(
      "--shutdown-grace-ms <ms>",
      "how long running steps may take to end; below the pod's grace",
      wholeNumber,
    )
    .option("--deployment <name>", "worker deployment; moves then stay with the build that started them")
    .option("--build-id <id>", "build of that deployment")
    .parse(words, { from: "user" })
    .opts<Flags>();
}

/** Pinned: a move ends within days, so it keeps the code that it began with instead of being carried over. */
function deploymentOf({ deployment, buildId }: Flags): WorkerDeploymentOptions | undefined {
  if ((deployment === undefined) !== (buildId === undefined)) {
    throw new Error("give --deployment and --build-id, or neither");
  }
  if (deployment === undefined || buildId === undefined) return undefined;
  return {
    version: { deploymentName: deployment, buildId },
    useWorkerVersioning: true,
    defaultVersioningBehavior: "PINNED",
  };
}

function installRuntime({ listen, metricsPort }: Flags, log: Pino): void {
  Runtime.install({
    logger: temporalLogger(log),
    // Signals are handled below: readiness must go first, and both workers must be done before the process ends.
    shutdownSignals: [],
    telemetryOptions: {
      logging: { forward: {}, filter: { core: "WARN", other: "ERROR" } },
      ...(metricsPort === undefined
        ? {}
        : { metrics: { prometheus: { bindAddress: `${listen}:${metricsPort}` } } }),
    },
  });
}

async function connect({ connection, namespace }: TemporalTarget): Promise<NativeConnection> {
  try {
    return await NativeConnection.connect(connection);
  } catch (error) {
    const where = `${connection.address ?? "?"}, namespace ${namespace}`;
    throw new Error(`Temporal does not answer at ${where}: check temporal.address or TEMPORAL_ADDRESS`, {
      cause: error,
    });
  }
}

async function main(flags: Flags, log: Pino): Promise<void> {
  const deployment = deploymentOf(flags);
  const [bundle, target] = [await readBundle(), await temporalTarget(flags.config)];
  const sites = loadSites(flags.config);
  const activities = createActivities(sites);
  installRuntime(flags, log);
  const connection = await connect(target);
  const { namespace } = target;
  await ensureSearchAttributes(connection, namespace);
  const { maxTransfers, shutdownGraceMs } = flags;
  const workers = await startWorkers({
    connection,
    namespace,
    activities,
    bundle,
    ...(maxTransfers === undefined ? {} : { maxTransfers }),
    ...(shutdownGraceMs === undefined ? {} : { shutdownGraceMs }),
    ...(deployment === undefined ? {} : { deployment }),
  });
  let draining = false;
  const health =
    flags.healthPort === undefined
      ? undefined
      : await serveHealth(() => !draining && workers.isPolling(), {
          listen: flags.listen,
          port: flags.healthPort,
        });
  const drain = (signal: string): void => {
    draining = true;
    log.info({ signal }, "draining");
    workers.stop().catch(() => undefined);
  };
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, drain);
  process.stdout.write("ready\n");
  try {
    await workers.ended;
  } finally {
    await health?.close();
    await connection.close();
    await sites.close();
  }
}

if (import.meta.main) {
  const flags = readFlags(process.argv.slice(2));
  const log = createLogger(flags.logLevel);
  try {
    await main(flags, log);
    log.info("drained");
  } catch (error) {
    log.fatal({ error }, error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  }
}
