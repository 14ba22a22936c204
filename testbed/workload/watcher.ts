import { EventEmitter, once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { now } from "./caller.ts";
import { wordsOf } from "./front-proxy.ts";
import type { FrontProxy, Received } from "./front-proxy.ts";
import type { Ledger } from "./ledger.ts";
import { contentOf, objectPath } from "./resources.ts";
import type { Resource, StoredObject } from "./resources.ts";
import { WatchLog } from "./watch-log.ts";
import type { Seen } from "./watch-log.ts";

interface List {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly StoredObject[];
}

interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: StoredObject & { readonly code?: number };
}

export interface Watched {
  /** Path or id of the workspace's logical cluster. */
  readonly cluster: string;
  readonly resource: Resource;
  readonly namespace: string;
}

const gone = 410;
/** Between the end of a watch and its next start, where the server names no time itself. */
const resumeAfterMs = 100;

/**
 * Watches one collection for as long as it is told to. A watch that ends, for
 * whatever reason, is resumed with the last resourceVersion seen; only the
 * answer 410 makes it list again.
 */
export class Watcher {
  readonly log = new WatchLog();
  readonly watched: Watched;
  /** What refused the watch, by status: `{ 503: 2 }`. */
  readonly refusals: Record<number, number> = {};
  readonly #frontProxy: FrontProxy;
  readonly #stop = new AbortController();
  readonly #news = new EventEmitter();
  #resourceVersion = "";
  #running: Promise<void> | undefined;

  constructor(frontProxy: FrontProxy, watched: Watched) {
    this.#frontProxy = frontProxy;
    this.watched = watched;
  }

  get title(): string {
    return `${this.watched.resource.plural} of ${this.watched.cluster}`;
  }

  /** Resolves when the collection has been listed: what is written from now on must be seen. */
  async start(): Promise<void> {
    await this.#list();
    this.#running = this.#run();
  }

  /** Waits until the last acknowledged write of every key has been seen. @returns the keys that are behind after `withinMs` */
  async catchUp(ledger: Ledger, withinMs: number): Promise<readonly string[]> {
    const signal = AbortSignal.timeout(withinMs);
    for (;;) {
      const behind = this.log.behind(ledger);
      if (behind.length === 0 || signal.aborted) return behind;
      await once(this.#news, "event", { signal }).catch(() => undefined);
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const pauseMs = await this.#follow();
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** One stream from start to end. @returns how long to wait before the next */
  async #follow(): Promise<number> {
    const query = `watch=true&allowWatchBookmarks=true&resourceVersion=${this.#resourceVersion}`;
    try {
      const refused = await this.#frontProxy.watch(`${this.#path}?${query}`, this.#stop.signal, {
        opened: () => this.log.opened(now()),
        line: (line) => this.#take(JSON.parse(line) as WatchEvent),
      });
      return refused === undefined ? resumeAfterMs : await this.#onRefusal(refused);
    } catch (error) {
      if (error instanceof Expired) return await this.#relist();
      return resumeAfterMs;
    }
  }

  async #onRefusal({ status, retryAfterSeconds }: Received): Promise<number> {
    this.refusals[status] = (this.refusals[status] ?? 0) + 1;
    if (status === gone) return await this.#relist();
    return retryAfterSeconds === undefined ? resumeAfterMs : retryAfterSeconds * 1000;
  }

  #take({ type, object }: WatchEvent): void {
    if (type === "ERROR") {
      if (object.code === gone) throw new Expired();
      throw new Error(`the watch ended with ${object.code}`);
    }
    this.#resourceVersion = object.metadata.resourceVersion;
    if (type === "BOOKMARK") return;
    const seen = this.#seen(object);
    if (seen === undefined) return;
    if (type === "DELETED") this.log.deleted(seen);
    else this.log.put(seen);
    this.#news.emit("event");
  }

  async #relist(): Promise<number> {
    try {
      const objects = await this.#list();
      this.log.opened(now());
      this.log.relisted(objects);
      this.#news.emit("event");
      return 0;
    } catch {
      return resumeAfterMs;
    }
  }

  async #list(): Promise<Seen[]> {
    const { status, body } = await this.#frontProxy.send({ method: "GET", path: this.#path });
    if (status !== 200) throw new Error(`list of ${this.title} answered ${status}: ${wordsOf(body)}`);
    const list = body as List;
    this.#resourceVersion = list.metadata.resourceVersion;
    return list.items.flatMap((item) => this.#seen(item) ?? []);
  }

  #seen(object: StoredObject): Seen | undefined {
    const { resource } = this.watched;
    const { name, resourceVersion } = object.metadata;
    const content = contentOf(resource, object);
    if (content === undefined) return undefined;
    return { key: keyOf(resource, name), number: content.version, resourceVersion };
  }

  get #path(): string {
    const { cluster, resource, namespace } = this.watched;
    return objectPath(cluster, resource, namespace);
  }
}

/** The server has forgotten the changes since the resourceVersion asked for. */
class Expired extends Error {}

/** How the ledger names an object. */
export function keyOf(resource: Resource, name: string): string {
  return `${resource.plural}/${name}`;
}
