import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Endpoint } from "./endpoint.ts";

/** An API server that can reach the pods now, by fixed address. */
export interface VpnSide {
  readonly name: string;
  readonly address: string;
  readonly port: number;
}

/** Which pod is pinged: one that answers HTTP. */
export interface PingedPod {
  readonly namespace: string;
  readonly pod: string;
  readonly port: number;
}

export interface VpnSideResult {
  readonly side: string;
  readonly from: number;
  readonly to: number;
  readonly pings: number;
  readonly failed: number;
  /** Beyond the usual interval of 100 ms; from the first ping on and until the last. */
  readonly longestGapMs: number;
  readonly longestGapFrom: number;
  /** From sending a ping to its answer: what the tunnel, the API server and the pod took. */
  readonly slowestMs: number;
  /** How much later than its turn a ping was sent: what the machine took from the clients. */
  readonly latestMs: number;
  readonly failures: readonly string[];
}

/** What the thread of the pings is given. */
export interface PingedFrom extends Pick<Endpoint, "origin" | "tls"> {
  /** Of the pod's proxy. */
  readonly path: string;
}

/**
 * Pings a pod every 100 ms through the pod proxy of each API server that is to be able to reach it; in a thread of its own,
 * so that a gap is the tunnel's and not that of a process with many clients.
 */
export class VpnProber {
  readonly #thread: Worker;

  constructor({ origin, tls }: Endpoint, { namespace, pod, port }: PingedPod) {
    const path = `/api/v1/namespaces/${namespace}/pods/http:${pod}:${port}/proxy/`;
    const workerData: PingedFrom = { origin, tls, path };
    this.#thread = new Worker(new URL("./vpn-thread.ts", import.meta.url), { workerData });
    this.#thread.unref();
  }

  /** From now on these sides, and no others, are to reach the pod. Resolves when no other ping is under way. */
  async setSides(sides: readonly VpnSide[]): Promise<void> {
    await this.#ask(sides);
  }

  /** Of sides that have ended and, as far as they have come, of those that have not. */
  async results(): Promise<VpnSideResult[]> {
    return await this.#ask(undefined);
  }

  async #ask(sides: readonly VpnSide[] | undefined): Promise<VpnSideResult[]> {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
    this.#thread.postMessage(sides);
    const [results] = (await once(this.#thread, "message")) as [VpnSideResult[]];
    return results;
  }
}
