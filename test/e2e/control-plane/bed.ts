import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client, Connection } from "@temporalio/client";
import { NativeConnection } from "@temporalio/worker";
import { startControlPlaneTestbed } from "../../../testbed/control-plane.ts";
import type { ControlPlaneTestbed } from "../../../testbed/control-plane.ts";
import { Network } from "../../../testbed/network/network.ts";
import type { Server } from "../../../testbed/process.ts";
import { ensureSearchAttributes } from "../../../workers/search-attributes.ts";
import { makeWorker } from "../harness/worker.ts";

const BUNDLE = fileURLToPath(new URL("../../../workers/bundle.ts", import.meta.url));

export type SeedName = "seed-a" | "seed-b";

export function otherSeed(seed: SeedName): SeedName {
  return seed === "seed-a" ? "seed-b" : "seed-a";
}

/** Why the servers of this kind cannot run here, in one line; undefined where they can. */
export const whyNot = Network.whyNot();

/** A control plane in the first of two seeds, Temporal, and a worker in a process of its own. */
export interface ControlPlaneBed {
  readonly testbed: ControlPlaneTestbed;
  readonly client: Client;
  readonly worker: Server;
  close(): Promise<void>;
}

/** TTL of the DNS record before and after moves: short, because a move waits for it twice. */
export const TTL_SECONDS = 5;

export async function openBed(): Promise<ControlPlaneBed> {
  const dir = await mkdtemp(join(tmpdir(), "rehome-cp-"));
  const [testbed] = await Promise.all([
    startControlPlaneTestbed({ dir, ttlSeconds: TTL_SECONDS }),
    promisify(execFile)(process.execPath, [BUNDLE]),
  ]);
  try {
    return await connect(testbed, dir);
  } catch (error) {
    await testbed.stop();
    throw error;
  }
}

async function connect(testbed: ControlPlaneTestbed, dir: string): Promise<ControlPlaneBed> {
  const { address, namespace } = testbed.temporal;
  const native = await NativeConnection.connect({ address });
  await ensureSearchAttributes(native, namespace);
  await native.close();
  const worker = await makeWorker(testbed.configFile);
  await worker.start();
  const connection = await Connection.connect({ address });
  return {
    testbed,
    worker,
    client: new Client({ connection, namespace }),
    async close() {
      await worker.stop();
      await connection.close();
      await testbed.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
