import { askSeed } from "./seed-api.ts";

interface LeaseObject {
  readonly apiVersion: "coordination.k8s.io/v1";
  readonly kind: "Lease";
  readonly metadata: { readonly name: string; readonly resourceVersion?: string };
  readonly spec: {
    readonly holderIdentity: string;
    readonly leaseDurationSeconds: number;
    readonly acquireTime?: string;
    readonly renewTime: string;
    readonly leaseTransitions?: number;
  };
}

const leaseDurationSeconds = 15;

/** A Lease in the pod's namespace, held as client-go's leader election holds it. */
export class Lease {
  readonly #path: string;
  readonly #name: string;
  readonly #identity: string;

  constructor(namespace: string, name: string, identity: string) {
    this.#path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    this.#name = name;
    this.#identity = identity;
  }

  /** Takes or renews the lease. Returns false while another one holds it; throws when the API server refuses. */
  async hold(): Promise<boolean> {
    const now = microTime();
    const found = await this.#read();
    if (found === undefined) return await this.#write("POST", this.#next({ now, transitions: 0 }));
    const { holderIdentity, renewTime, leaseTransitions = 0, acquireTime = now } = found.spec;
    const own = holderIdentity === this.#identity;
    const expired = Date.parse(renewTime) + leaseDurationSeconds * 1000 < Date.now();
    if (!own && holderIdentity !== "" && !expired) return false;
    const next = own
      ? this.#next({ now, acquireTime, transitions: leaseTransitions })
      : this.#next({ now, transitions: leaseTransitions + 1 });
    return await this.#write("PUT", { ...next, metadata: found.metadata });
  }

  /** Gives the lease back, so that the next one need not wait for its end. */
  async release(): Promise<void> {
    const found = await this.#read();
    if (found?.spec.holderIdentity !== this.#identity) return;
    await this.#write("PUT", {
      ...found,
      spec: { ...found.spec, holderIdentity: "", renewTime: microTime() },
    });
  }

  async #read(): Promise<LeaseObject | undefined> {
    const { status, body } = await askSeed("GET", `${this.#path}/${this.#name}`);
    if (status === 404) return undefined;
    if (status !== 200) throw new Error(`GET lease answered ${status}: ${JSON.stringify(body)}`);
    return body as LeaseObject;
  }

  async #write(method: "POST" | "PUT", lease: LeaseObject): Promise<boolean> {
    const path = method === "POST" ? this.#path : `${this.#path}/${this.#name}`;
    const { status, body } = await askSeed(method, path, lease);
    if (status === 409) return false;
    if (status > 299) throw new Error(`${method} lease answered ${status}: ${JSON.stringify(body)}`);
    return true;
  }

  #next(from: { now: string; acquireTime?: string; transitions: number }): LeaseObject {
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: this.#name },
      spec: {
        holderIdentity: this.#identity,
        leaseDurationSeconds,
        acquireTime: from.acquireTime ?? from.now,
        renewTime: from.now,
        leaseTransitions: from.transitions,
      },
    };
  }
}

/** Now, in the form of Kubernetes' MicroTime. */
function microTime(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
