import { rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { Fence } from "./fence.ts";
import { Lease } from "./lease.ts";

export interface ControllerOptions {
  /** Of the controller and of its lease. */
  readonly name: string;
  /** Shared with instances in other seeds. */
  readonly fenceFolder: string;
  readonly releaseOnExit?: boolean;
}

const renewEveryMs = 2_000;
/** A leader that could not renew for so long must end before its lease does. */
const renewDeadlineMs = 10_000;
const leadingFile = "/run/controller/leading";

/**
 * A controller as a move sees it: it leads while it holds its lease in the
 * seed, and its process must be the only one over all seeds. Runs until SIGTERM.
 */
export async function runController(options: ControllerOptions): Promise<void> {
  const { POD_NAME: pod = "", POD_NAMESPACE: namespace = "" } = process.env;
  const fence = new Fence(options.fenceFolder, options.name, pod);
  fence.enter();
  const stop = new AbortController();
  const asked = once(process, "SIGTERM").then(() => stop.abort());
  const lease = new Lease(namespace, options.name, pod);
  await Promise.race([asked, lead(lease, stop.signal, () => fence.note("leading"))]);
  if (options.releaseOnExit) await lease.release();
  rmSync(leadingFile, { force: true });
  fence.note("stopped");
  process.exit(0);
}

async function lead(lease: Lease, signal: AbortSignal, onLeading: () => void): Promise<void> {
  let leading = false;
  let heldAt = performance.now();
  while (!signal.aborted) {
    const held = await lease.hold().catch((error: unknown) => {
      console.error((error as Error).message);
      return undefined;
    });
    if (held === true) {
      heldAt = performance.now();
      if (!leading) onLeading();
      leading = true;
      writeFileSync(leadingFile, "");
    }
    const lost = held === false || performance.now() - heldAt > renewDeadlineMs;
    if (leading && lost) throw new Error("the lease is lost");
    await delay(renewEveryMs, undefined, { signal }).catch(() => undefined);
  }
}
