import type { Caller } from "./caller.ts";
import { isSuccess } from "./front-proxy.ts";
import type { Ledger } from "./ledger.ts";
import { contentOf, objectPath } from "./resources.ts";
import type { StoredObject } from "./resources.ts";
import { keyOf } from "./watcher.ts";
import type { Findings, Place, Writer } from "./writer.ts";

/** Reads what writers write, and compares it with what had been acknowledged before the read was sent. */
export class Reader {
  readonly #place: Place;
  readonly #caller: Caller;
  readonly #ledger: Ledger;
  readonly #findings: Findings;
  readonly #writers: ReadonlyMap<string, Writer>;

  constructor(
    place: Place,
    writers: readonly Writer[],
    tools: { caller: Caller; ledger: Ledger; findings: Findings },
  ) {
    this.#place = place;
    this.#caller = tools.caller;
    this.#ledger = tools.ledger;
    this.#findings = tools.findings;
    this.#writers = new Map(writers.map((writer) => [writer.key, writer]));
  }

  /** Reads one object that is never deleted. */
  async get(name: string): Promise<void> {
    const { resource, namespace, address } = this.#place;
    const key = keyOf(resource, name);
    const before = this.#known([key]);
    const { status, body } = await this.#caller.call({
      verb: "get",
      resource: resource.plural,
      path: objectPath(address(), resource, namespace, name),
    });
    if (isSuccess(status)) this.#compare(before, new Map([[key, body as StoredObject]]));
  }

  async list(): Promise<void> {
    const { resource, namespace, address } = this.#place;
    const before = this.#known(this.#writers.keys());
    const { status, body } = await this.#caller.call({
      verb: "list",
      resource: resource.plural,
      path: objectPath(address(), resource, namespace),
    });
    if (!isSuccess(status)) return;
    const { items } = body as { items: readonly StoredObject[] };
    this.#compare(before, new Map(items.map((item) => [keyOf(resource, item.metadata.name), item])));
  }

  #known(keys: Iterable<string>): Known[] {
    return [...keys].map((key) => ({
      key,
      number: this.#ledger.lastAcknowledged(key),
      resourceVersion: this.#writers.get(key)?.resourceVersion ?? 0n,
    }));
  }

  #compare(before: readonly Known[], found: ReadonlyMap<string, StoredObject>): void {
    for (const { key, number, resourceVersion } of before) {
      const object = found.get(key);
      const observed = object === undefined ? null : (contentOf(this.#place.resource, object)?.version ?? -1);
      if (this.#ledger.isStale(key, observed, number)) {
        this.#findings.stale.push(`${key}: ${observed ?? "nothing"} after write ${number}`);
      }
      if (object !== undefined && BigInt(object.metadata.resourceVersion) < resourceVersion) {
        const { resourceVersion: read } = object.metadata;
        this.#findings.regressions.push(`${key}: ${read} after ${resourceVersion}`);
      }
    }
  }
}

interface Known {
  readonly key: string;
  readonly number: number;
  readonly resourceVersion: bigint;
}
