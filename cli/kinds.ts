import type { z } from "zod";
import { controlPlaneMigrationInput } from "../inputs/control-plane-migration.ts";
import { logicalClusterMigrationInput } from "../inputs/logical-cluster-migration.ts";

type Fields = Readonly<Record<string, unknown>>;

/** What the command line knows about a kind of move. */
export interface Kind {
  /** Checks and describes the input. */
  readonly schema: z.ZodObject;
  /** What is moved, for the default workflow id. */
  readonly subject: (input: Fields) => string;
  /** One line for lists, of a checked input. */
  readonly summary: (input: Fields) => string;
  /** One line above the report. */
  readonly headline: (report: Fields) => string;
  /** The option of `start` that sets a field, where there is one. */
  readonly flags: Readonly<Record<string, string>>;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function clusterHeadline({ path, cluster, from, to, dryRun, verified }: Fields): string {
  const subject = `${text(path)} (${text(cluster)})`;
  if (dryRun === true)
    return `Plan: ${subject} can be moved from ${text(from)} to ${text(to)}. Nothing was changed.`;
  const proof = verified === true ? "proven equal before the switch" : "NOT proven equal";
  return `${subject} was moved from ${text(from)} to ${text(to)}, ${proof}.`;
}

function controlPlaneHeadline({ controlPlane, from, to, dryRun, verified }: Fields): string {
  const name = `Control plane ${text(controlPlane)}`;
  if (dryRun === true)
    return `Plan: ${name} can be moved from ${text(from)} to ${text(to)}. Nothing was changed.`;
  const proof =
    verified === true ? "all members proven equal before the first was removed" : "NOT proven equal";
  return `${name} was moved from ${text(from)} to ${text(to)}, ${proof}.`;
}

const KINDS: Readonly<Record<string, Kind>> = {
  logicalClusterMigration: {
    schema: logicalClusterMigrationInput,
    subject: ({ logicalCluster }) => text(logicalCluster),
    summary: ({ logicalCluster, to }) => `Move ${text(logicalCluster)} to ${text(to)}`,
    headline: clusterHeadline,
    flags: {
      logicalCluster: "--logical-cluster <path or id>",
      to: "--to <shard>",
      from: "--from <shard>",
      gates: "--gate <phase>",
      fence: "--fence <auto|migration|inactive>",
    },
  },
  controlPlaneMigration: {
    schema: controlPlaneMigrationInput,
    subject: ({ controlPlane }) => text(controlPlane),
    summary: ({ controlPlane, to }) => `Move control plane ${text(controlPlane)} to ${text(to)}`,
    headline: controlPlaneHeadline,
    flags: {
      controlPlane: "--control-plane <name>",
      to: "--to <seed>",
      from: "--from <seed>",
      gates: "--gate <phase>",
    },
  },
};

export const KIND_NAMES: readonly string[] = Object.keys(KINDS);

export function kindOf(name: string): Kind | undefined {
  return Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
}

export const DEFAULT_KIND = "logicalClusterMigration";
