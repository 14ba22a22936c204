import type { Logger, LogLevel, LogMetadata } from "@temporalio/worker";
import { pino } from "pino";
import type { Logger as Pino } from "pino";

const LEVELS: Readonly<Record<LogLevel, "trace" | "debug" | "info" | "warn" | "error">> = {
  TRACE: "trace",
  DEBUG: "debug",
  INFO: "info",
  WARN: "warn",
  ERROR: "error",
};

/** One JSON object a line on standard output, errors with their causes. */
export function createLogger(level = "info"): Pino {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { error: pino.stdSerializers.errWithCause },
  });
}

/**
 * The SDK's logger interface on pino. What workflows and activities log comes with workflow id, run id and activity
 * type, which the SDK adds.
 */
export function temporalLogger(target: Pino): Logger {
  const log = (level: LogLevel, message: string, metadata: LogMetadata = {}): void => {
    target[LEVELS[level]]({ ...metadata }, message);
  };
  return {
    log,
    trace: (message, metadata) => log("TRACE", message, metadata),
    debug: (message, metadata) => log("DEBUG", message, metadata),
    info: (message, metadata) => log("INFO", message, metadata),
    warn: (message, metadata) => log("WARN", message, metadata),
    error: (message, metadata) => log("ERROR", message, metadata),
  };
}
