import { join } from "node:path";
import { freePort } from "../ports.ts";
import { Server } from "../process.ts";

const root = join(import.meta.dirname, "..", "..");

/** Starts a worker as a process of its own, as in production, and waits until it polls. Its log is `<dir>/worker.log`. */
export async function startWorker(configFile: string, dir: string): Promise<Server> {
  const port = await freePort();
  const server = new Server({
    name: "rehome worker",
    command: process.execPath,
    arguments: [
      join(root, "workers", "worker.ts"),
      `--config=${configFile}`,
      "--listen=127.0.0.1",
      `--health-port=${port}`,
      // At the end of a demo nothing runs that is worth waiting for.
      "--shutdown-grace-ms=2000",
    ],
    logFile: join(dir, "worker.log"),
    probe: async (signal) => {
      const { status } = await fetch(`http://127.0.0.1:${port}/readyz`, { signal });
      if (status !== 200) throw new Error(`/readyz answers ${status}`);
    },
    readyWithinMs: 60_000,
  });
  return await server.start();
}
