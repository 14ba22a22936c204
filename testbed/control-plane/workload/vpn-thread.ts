import { parentPort, workerData } from "node:worker_threads";
import { now } from "../../workload/caller.ts";
import { longestGap } from "../../workload/gaps.ts";
import { isSuccess, wordsOf } from "../../workload/http.ts";
import type { HttpsClient } from "../../workload/https-client.ts";
import { Rhythm } from "../../workload/rhythm.ts";
import { atAddress, openHttp1 } from "./endpoint.ts";
import type { PingedFrom, VpnSide, VpnSideResult } from "./vpn-prober.ts";

const pingsPerSecond = 10;
const pingTimeoutMs = 5_000;
const examples = 10;

/** One side's pings. */
class Probe {
  readonly #name: string;
  readonly #client: HttpsClient;
  readonly #rhythm: Rhythm;
  readonly #from = now();
  readonly #successes: number[] = [];
  readonly #failures: string[] = [];
  #pings = 0;
  #sentAt: number | undefined;
  #slowestMs = 0;
  #latestMs = 0;

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
      slowestMs: Math.round(this.#slowestMs),
      latestMs: Math.round(this.#latestMs),
      failures: this.#failures.slice(0, examples),
    };
  }

  async #ping(path: string): Promise<void> {
    this.#pings += 1;
    const sentAt = now();
    this.#latestMs = Math.max(this.#latestMs, sentAt - (this.#sentAt ?? sentAt) - 1000 / pingsPerSecond);
    this.#sentAt = sentAt;
    const { status, body } = await this.#client.send({ method: "GET", path, timeoutMs: pingTimeoutMs });
    this.#slowestMs = Math.max(this.#slowestMs, now() - sentAt);
    if (isSuccess(status)) this.#successes.push(now());
    else this.#failures.push(`${new Date(sentAt).toISOString()}: ${status} ${wordsOf(body)}`);
  }
}

const { origin, tls, path } = workerData as PingedFrom;
const probes = new Map<string, Probe>();
const ended: VpnSideResult[] = [];

async function setSides(sides: readonly VpnSide[]): Promise<void> {
  const ending = [...probes].filter(([name]) => !sides.some((side) => side.name === name));
  for (const { name, address, port } of sides) {
    if (probes.has(name)) continue;
    probes.set(name, new Probe(name, openHttp1(atAddress({ origin, tls }, address, port)), path));
  }
  for (const [name, probe] of ending) {
    probes.delete(name);
    ended.push(await probe.stop());
  }
}

/** Each message changes the sides, or only asks; the answer is what was seen so far. */
async function answer(sides: readonly VpnSide[] | undefined): Promise<void> {
  if (sides !== undefined) await setSides(sides);
  const results = [...ended, ...[...probes.values()].map((probe) => probe.result())];
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  parentPort!.postMessage(results);
}

parentPort!.on("message", (sides: readonly VpnSide[] | undefined) => void answer(sides));
