import { now } from "../../workload/caller.ts";
import { longestGap } from "../../workload/gaps.ts";
import { isSuccess, wordsOf } from "../../workload/http.ts";
import type { HttpsClient } from "../../workload/https-client.ts";
import { Rhythm } from "../../workload/rhythm.ts";
import { atAddress, openHttp1 } from "./endpoint.ts";
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
  readonly failures: readonly string[];
}

const pingsPerSecond = 10;
const pingTimeoutMs = 5_000;
const examples = 10;

/** Pings a pod every 100 ms through the pod proxy of each API server that is to be able to reach it. */
export class VpnProber {
  readonly #endpoint: Endpoint;
  readonly #path: string;
  readonly #probes = new Map<string, Probe>();
  readonly #ended: VpnSideResult[] = [];

  constructor(endpoint: Endpoint, { namespace, pod, port }: PingedPod) {
    this.#endpoint = endpoint;
    this.#path = `/api/v1/namespaces/${namespace}/pods/http:${pod}:${port}/proxy/`;
  }

  /** From now on these sides, and no others, are to reach the pod. Resolves when no other ping is under way. */
  async setSides(sides: readonly VpnSide[]): Promise<void> {
    const ending = [...this.#probes].filter(([name]) => !sides.some((side) => side.name === name));
    for (const side of sides) {
      if (this.#probes.has(side.name)) continue;
      const client = openHttp1(atAddress(this.#endpoint, side.address, side.port));
      this.#probes.set(side.name, new Probe(side.name, client, this.#path));
    }
    for (const [name, probe] of ending) {
      this.#probes.delete(name);
      this.#ended.push(await probe.stop());
    }
  }

  /** Of sides that have ended and, as far as they have come, of those that have not. */
  results(): VpnSideResult[] {
    return [...this.#ended, ...[...this.#probes.values()].map((probe) => probe.result())];
  }
}

class Probe {
  readonly #name: string;
  readonly #client: HttpsClient;
  readonly #rhythm: Rhythm;
  readonly #from = now();
  readonly #successes: number[] = [];
  readonly #failures: string[] = [];
  #pings = 0;

  constructor(name: string, client: HttpsClient, path: string) {
    this.#name = name;
    this.#client = client;
    this.#rhythm = new Rhythm(pingsPerSecond, async () => await this.#ping(path));
  }

  async stop(): Promise<VpnSideResult> {
    const to = now();
    await this.#rhythm.stop();
    this.#client.close();
    return this.result(to);
  }

  result(to = now()): VpnSideResult {
    // The first ping is late by up to one interval, as every later one may be.
    const gap = longestGap([this.#from, ...this.#successes], to);
    return {
      side: this.#name,
      from: this.#from,
      to,
      pings: this.#pings,
      failed: this.#failures.length,
      longestGapMs: Math.round(gap?.ms ?? to - this.#from),
      longestGapFrom: gap?.from ?? this.#from,
      failures: this.#failures.slice(0, examples),
    };
  }

  async #ping(path: string): Promise<void> {
    this.#pings += 1;
    const sentAt = now();
    const { status, body } = await this.#client.send({ method: "GET", path, timeoutMs: pingTimeoutMs });
    if (isSuccess(status)) this.#successes.push(now());
    else this.#failures.push(`${new Date(sentAt).toISOString()}: ${status} ${wordsOf(body)}`);
  }
}
