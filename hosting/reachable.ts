import type { ApiServer } from "../kubernetes/api-server.ts";

const REACHABLE_MS = 5_000;

/** Whether a seed's API server answers now that it is ready. @throws the signal's reason. */
export async function isReachable(seed: ApiServer, signal: AbortSignal): Promise<boolean> {
  try {
    const { status } = await seed.request({ path: "/readyz", timeoutMs: REACHABLE_MS, signal });
    return status === 200;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}
