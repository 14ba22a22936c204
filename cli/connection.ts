import { existsSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { fileURLToPath } from "node:url";
import { Client, Connection } from "@temporalio/client";
import type { ConnectionOptions } from "@temporalio/client";
import { temporalTarget } from "../workers/config.ts";
import type { TemporalTarget } from "../workers/config.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { explain, isAnswer, UnreachableError } from "./problems.ts";
import type { Endpoint } from "./problems.ts";

/** What the command line says about where Temporal is. */
export interface ConnectionFlags {
  readonly config?: string;
  readonly address?: string;
  readonly namespace?: string;
}

const CONFIG = "rehome.yaml";
const NO_CONFIG = fileURLToPath(new URL("defaults.yaml", import.meta.url));
const CONNECT_WITHIN_MS = 5000;

/**
 * Where Temporal is: the command line goes before the environment, and that before the file.
 *
 * @throws CommandError for a configuration that cannot be read.
 */
export async function targetFrom(
  { config, address, namespace }: ConnectionFlags,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<TemporalTarget> {
  const file = config ?? (existsSync(CONFIG) ? CONFIG : NO_CONFIG);
  const overrides = {
    ...(address === undefined ? {} : { TEMPORAL_ADDRESS: address }),
    ...(namespace === undefined ? {} : { TEMPORAL_NAMESPACE: namespace }),
  };
  try {
    return await temporalTarget(file, { ...environment, ...overrides });
  } catch (error) {
    throw new CommandError(EXIT.usage, (error as Error).message, error);
  }
}

/** The connection as it was typed, for commands that are shown to be pasted. */
export function typedConnection({ config, address, namespace }: ConnectionFlags): string[] {
  const given = { "--config": config, "--address": address, "--namespace": namespace };
  return Object.entries(given).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]));
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
export async function withClient<T>(target: TemporalTarget, use: (client: Client) => Promise<T>): Promise<T> {
  const { namespace } = target;
  const connection = await connect(target);
  try {
    return await use(
      new Client({ connection, namespace, identity: `rehome CLI of ${operator()}@${hostname()}` }),
    );
  } catch (error) {
    throw explain(error, endpointOf(target));
  } finally {
    await connection.close();
  }
}

function endpointOf({ connection, namespace }: TemporalTarget): Endpoint {
  return { address: connection.address ?? "", namespace };
}

async function connect(target: TemporalTarget): Promise<Connection> {
  const { tls, apiKey } = target.connection;
  const { address } = endpointOf(target);
  const options = {
    address,
    connectTimeout: CONNECT_WITHIN_MS,
    ...(tls === undefined ? {} : { tls }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  try {
    return await Connection.connect(options);
  } catch (error) {
    const reason = isAnswer(error) ? error : ((await refusal(options)) ?? error);
    throw explain(new UnreachableError(reason), endpointOf(target));
  }
}

/** Waiting for a connection ends without a word about why there is none; a call that does not wait says it. */
async function refusal(options: ConnectionOptions): Promise<unknown> {
  const connection = Connection.lazy({ ...options, interceptors: [] });
  try {
    await connection.withDeadline(
      Date.now() + CONNECT_WITHIN_MS,
      async () => await connection.workflowService.getSystemInfo({}),
    );
    return undefined;
  } catch (error) {
    return error;
  } finally {
    await connection.close();
  }
}
