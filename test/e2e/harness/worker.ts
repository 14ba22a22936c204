import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../../../testbed/ports.ts";
import { Server } from "../../../testbed/process.ts";

const WORKER = fileURLToPath(new URL("../../../workers/worker.ts", import.meta.url));

/**
 * A worker for all queues, not started. Its log is kept beside the configuration.
 * @param more arguments
 */
export async function makeWorker(config: string, ...more: string[]): Promise<Server> {
  const port = await freePort();
  return new Server({
    name: "worker",
    command: process.execPath,
    arguments: [WORKER, "--config", config, "--listen", "127.0.0.1", "--health-port", String(port), ...more],
    logFile: join(dirname(config), "worker.log"),
    async probe(signal) {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal });
      if (!answer.ok) throw new Error(`/readyz answered ${answer.status}`);
    },
    readyWithinMs: 240_000,
  });
}
