import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NativeConnection } from "@temporalio/worker";
import type { TestProject } from "vitest/node";
import { startTemporal } from "../../testbed/temporal.ts";
import { ensureSearchAttributes } from "../../workers/search-attributes.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** The Temporal server that all tests of this run share, with the search attributes registered. */
    temporal: { readonly address: string; readonly namespace: string };
  }
}

/** Starts the server before the first test file and stops it after the last. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), "rehome-temporal-"));
  const { address, namespace, server } = await startTemporal({ dir });
  const connection = await NativeConnection.connect({ address });
  try {
    await ensureSearchAttributes(connection, namespace);
  } finally {
    await connection.close();
  }
  project.provide("temporal", { address, namespace });
  return async () => {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  };
}
