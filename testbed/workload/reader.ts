import type { Caller } from "./caller.ts";
import { isSuccess } from "./http.ts";
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

  /**
   * Lists all objects.
   * @param how.pageSize by pages of so many, where it is given
   * @param how.selector only those with these labels, which all objects of the writers have
   */
  async list(how: { readonly pageSize?: number; readonly selector?: string } = {}): Promise<void> {
    const { resource } = this.#place;
    const before = this.#known(this.#writers.keys());
    const items = await this.#pages({
      ...(how.pageSize === undefined ? {} : { limit: String(how.pageSize) }),
      ...(how.selector === undefined ? {} : { labelSelector: how.selector }),
    });
    if (items === undefined) return;
    this.#compare(before, new Map(items.map((item) => [keyOf(resource, item.metadata.name), item])));
  }

  /** @returns undefined when a page was not to be had */
  async #pages(query: Readonly<Record<string, string>>): Promise<StoredObject[] | undefined> {
    const { resource, namespace, address } = this.#place;
    const items: StoredObject[] = [];
    let next: string | undefined = "";
    while (next !== undefined) {
      const parameters = new URLSearchParams({ ...query, ...(next === "" ? {} : { continue: next }) });
      const path = objectPath(address(), resource, namespace);
      const { status, body } = await this.#caller.call({
        verb: "list",
        resource: resource.plural,
        path: parameters.size === 0 ? path : `${path}?${parameters.toString()}`,
        ...(next === "" ? {} : { alsoFine: gone }),
      });
      // As client-go's pager: when the first page's revision is compacted, all is listed at once.
      if (status === gone && next !== "") return await this.#pages(without(query, "limit"));
      if (!isSuccess(status)) return undefined;
      const page = body as Page;
      items.push(...page.items);
      next = page.metadata.continue || undefined;
    }
    return items;
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

const gone = 410;

interface Page {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly StoredObject[];
}

function without(query: Readonly<Record<string, string>>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(query).filter(([key]) => key !== name));
}

interface Known {
  readonly key: string;
  readonly number: number;
  readonly resourceVersion: bigint;
}
