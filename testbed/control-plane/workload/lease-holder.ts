import { setTimeout as delay } from "node:timers/promises";
import { now } from "../../workload/caller.ts";
import { isSuccess, jsonFrom, wordsOf } from "../../workload/http.ts";
import type { ApiServer, Method, Received } from "../../workload/http.ts";

export interface LeaseResult {
  /** Whether the holder would have had to give up: its deadline passed, or another one holds the lease. */
  readonly lost: boolean;
  /** Why, where it was lost. */
  readonly reason?: string;
  readonly renewals: number;
  /** Attempts that did not renew it. */
  readonly failedAttempts: readonly string[];
  /** The longest time between two renewals, and until the end. */
  readonly longestMs: number;
  /** When that began, in ms since the epoch. */
  readonly longestFrom: number;
}

interface Lease {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec: { readonly holderIdentity?: string };
}

/** As kube-controller-manager has them. */
const leaseSeconds = 15;
const renewDeadlineMs = 10_000;
const retryMs = 2_000;
/** Of one request: client-go's resource locks take half of the deadline. */
const requestTimeoutMs = renewDeadlineMs / 2;
const collection = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const notFound = 404;

/**
 * Holds a Lease as a controller does (client-go, tools/leaderelection): renews it
 * every 2 s, by an update of what it saw last, or else by reading first; gives up
 * when it has not succeeded for 10 s, or when somebody else holds it.
 */
export class LeaseHolder {
  readonly #server: ApiServer;
  readonly #name: string;
  readonly #identity: string;
  readonly #stop = new AbortController();
  readonly #renewedAt: number[] = [];
  readonly #failedAttempts: string[] = [];
  #running: Promise<void> | undefined;
  #lease: Lease | undefined;
  #lost: string | undefined;
  #endedAt: number | undefined;

  constructor(server: ApiServer, name: string, identity: string) {
    this.#server = server;
    this.#name = name;
    this.#identity = identity;
  }

  /** Takes the lease, from whoever may hold it. Throws an Error when that is not possible. */
  async acquire(): Promise<void> {
    const { status, body } = await this.#send("GET");
    if (status === notFound) {
      const metadata = { name: this.#name, namespace: "kube-system" };
      const sent = { method: "POST", path: collection, body: this.#body(metadata) } as const;
      this.#adopt(await jsonFrom<Lease>(this.#server, sent));
    } else {
      this.#lease = body as Lease;
      const updated = await this.#update();
      if (!isSuccess(updated.status)) throw new Error(`lease ${this.#name}: ${wordsOf(updated.body)}`);
    }
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    this.#endedAt ??= now();
  }

  result(): LeaseResult {
    const ends = [...this.#renewedAt.slice(1), this.#endedAt ?? now()];
    let longest = { ms: 0, from: this.#renewedAt[0] ?? 0 };
    for (const [index, from] of this.#renewedAt.entries()) {
      const ms = (ends[index] as number) - from;
      if (ms > longest.ms) longest = { ms, from };
    }
    return {
      lost: this.#lost !== undefined,
      ...(this.#lost === undefined ? {} : { reason: this.#lost }),
      renewals: this.#renewedAt.length,
      failedAttempts: this.#failedAttempts,
      longestMs: Math.round(longest.ms),
      longestFrom: longest.from,
    };
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted && this.#lost === undefined) {
      await delay(retryMs, undefined, { signal }).catch(() => undefined);
      await this.#renew(signal);
    }
  }

  async #renew(signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + renewDeadlineMs;
    while (!signal.aborted && this.#lost === undefined) {
      if (await this.#tryRenew(deadline)) return;
      if (performance.now() > deadline) this.#lost ??= `not renewed for ${renewDeadlineMs} ms`;
      else await delay(retryMs, undefined, { signal }).catch(() => undefined);
    }
  }

  async #tryRenew(deadline: number): Promise<boolean> {
    const updated = await this.#update(deadline);
    if (isSuccess(updated.status)) return true;
    this.#failedAttempts.push(`update: ${updated.status} ${wordsOf(updated.body)}`);
    const { status, body } = await this.#send("GET", undefined, deadline);
    if (status !== 200) {
      this.#failedAttempts.push(`get: ${status} ${wordsOf(body)}`);
      return false;
    }
    this.#lease = body as Lease;
    const { holderIdentity } = this.#lease.spec;
    if (holderIdentity !== this.#identity) {
      this.#lost = `held by ${holderIdentity}`;
      return false;
    }
    return isSuccess((await this.#update(deadline)).status);
  }

  async #update(deadline?: number): Promise<Received> {
    const { resourceVersion } = (this.#lease as Lease).metadata;
    const metadata = { name: this.#name, namespace: "kube-system", resourceVersion };
    const received = await this.#send("PUT", this.#body(metadata), deadline);
    if (isSuccess(received.status)) this.#adopt(received.body as Lease);
    return received;
  }

  #adopt(lease: Lease): void {
    this.#lease = lease;
    this.#renewedAt.push(now());
  }

  async #send(method: Method, body?: object, deadline = Infinity): Promise<Received> {
    const left = Math.max(1, deadline - performance.now());
    return await this.#server.send({
      method,
      path: `${collection}/${this.#name}`,
      timeoutMs: Math.round(Math.min(requestTimeoutMs, left)),
      ...(body === undefined ? {} : { body }),
    });
  }

  #body(metadata: object): object {
    // A MicroTime: six digits of a second.
    const time = new Date().toISOString().replace("Z", "000Z");
    const spec = {
      holderIdentity: this.#identity,
      leaseDurationSeconds: leaseSeconds,
      acquireTime: time,
      renewTime: time,
      leaseTransitions: 0,
    };
    return { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
  }
}
