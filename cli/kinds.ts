import type { z } from "zod";
import { logicalClusterMigrationInput } from "../inputs/logical-cluster-migration.ts";

/** What the command line knows about a kind of move. */
export interface Kind {
  /** Checks and describes the input. */
  readonly schema: z.ZodObject;
  /** What is moved, for the default workflow id; empty when the input does not say. */
  readonly subject: (input: Readonly<Record<string, unknown>>) => string;
  /** One line for lists. */
  readonly summary: (input: Readonly<Record<string, unknown>>) => string;
  /** The option of `start` that sets a field, where there is one. */
  readonly flags: Readonly<Record<string, string>>;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export const KINDS: Readonly<Record<string, Kind>> = {
  logicalClusterMigration: {
    schema: logicalClusterMigrationInput,
    subject: ({ logicalCluster }) => text(logicalCluster),
    summary: ({ logicalCluster, to }) => `Move ${text(logicalCluster)} to ${text(to)}`,
    flags: {
      logicalCluster: "--logical-cluster <path or id>",
      to: "--to <shard>",
      from: "--from <shard>",
      gates: "--gate <phase>",
      fence: "--fence <auto|migration|inactive>",
    },
  },
};

export const DEFAULT_KIND = "logicalClusterMigration";
