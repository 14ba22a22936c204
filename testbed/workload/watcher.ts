import { EventEmitter, once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { now } from "./caller.ts";
import { wordsOf } from "./http.ts";
import type { ApiServer, Received } from "./http.ts";
import type { Ledger } from "./ledger.ts";
import { contentOf, objectPath } from "./resources.ts";
import type { Resource, StoredObject } from "./resources.ts";
import { WatchLog } from "./watch-log.ts";
import type { Excuse, Seen } from "./watch-log.ts";

interface List {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly StoredObject[];
}

interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: StoredObject & { readonly code?: number };
}

export interface Watched {
  /** Path or id of the workspace's logical cluster; undefined for an API server that has but one. */
  readonly cluster: string | undefined;
  readonly resource: Resource;
  readonly namespace: string;
  /** Label selector. */
  readonly selector?: string;
  /** The server ends each stream after so many seconds. Default: when it likes. */
  readonly timeoutSeconds?: () => number;
  /** Ms until the next start, by the number of failed ones in a row. Default 100. */
  readonly resumeAfterMs?: (failures: number) => number;
  /** See {@link Excuse}. Default `break`. */
  readonly excuse?: Excuse;
}

const gone = 410;
/** Between the end of a watch and its next start, where nobody names another time. */
const defaultResumeAfterMs = 100;

/**
 * Watches one collection for as long as it is told to. A watch that ends, for
 * whatever reason, is resumed with the last resourceVersion seen; only the
 * answer 410 makes it list again.
 */
export class Watcher {
  readonly log: WatchLog;
  readonly watched: Watched;
  /** What refused the watch, by status: `{ 503: 2 }`. */
  readonly refusals: Record<number, number> = {};
  /** Events that came although an event or a list had told of a later, or of the very same, change. */
  readonly disorder: string[] = [];
  readonly #server: ApiServer;
  readonly #stop = new AbortController();
  readonly #news = new EventEmitter();
  #resourceVersion = "";
  #failures = 0;
  #running: Promise<void> | undefined;

  constructor(server: ApiServer, watched: Watched) {
    this.#server = server;
    this.watched = watched;
    this.log = new WatchLog(watched.excuse);
  }

  get title(): string {
    const { resource, cluster, selector } = this.watched;
    return `${resource.plural} of ${cluster ?? selector ?? "all"}`;
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
    this.#failures += 1;
    try {
      const refused = await this.#server.watch(this.#watchPath, this.#stop.signal, {
        opened: () => {
          this.#failures = 0;
          this.log.opened(now());
        },
        line: (line) => this.#take(JSON.parse(line) as WatchEvent),
      });
      return refused === undefined ? this.#resumeAfterMs : await this.#onRefusal(refused);
    } catch (error) {
      if (error instanceof Expired) return await this.#relist();
      return this.#resumeAfterMs;
    }
  }

  async #onRefusal({ status, retryAfterSeconds }: Received): Promise<number> {
    this.refusals[status] = (this.refusals[status] ?? 0) + 1;
    if (status === gone) return await this.#relist();
    return retryAfterSeconds === undefined ? this.#resumeAfterMs : retryAfterSeconds * 1000;
  }

  #take({ type, object }: WatchEvent): void {
    if (type === "ERROR") {
      if (object.code === gone) throw new Expired();
      throw new Error(`the watch ended with ${object.code}`);
    }
    const { resourceVersion } = object.metadata;
    const isLater = BigInt(resourceVersion) > BigInt(this.#resourceVersion);
    if (type !== "BOOKMARK" && !isLater)
      this.disorder.push(`${resourceVersion} after ${this.#resourceVersion}`);
    this.#resourceVersion = resourceVersion;
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
      return this.#resumeAfterMs;
    }
  }

  get #resumeAfterMs(): number {
    return this.watched.resumeAfterMs?.(this.#failures) ?? defaultResumeAfterMs;
  }

  async #list(): Promise<Seen[]> {
    const { selector } = this.watched;
    const query = selector === undefined ? "" : `?labelSelector=${encodeURIComponent(selector)}`;
    const { status, body } = await this.#server.send({ method: "GET", path: `${this.#path}${query}` });
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

  get #watchPath(): string {
    const { selector, timeoutSeconds } = this.watched;
    const query = new URLSearchParams({
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: this.#resourceVersion,
      ...(selector === undefined ? {} : { labelSelector: selector }),
      ...(timeoutSeconds === undefined ? {} : { timeoutSeconds: String(timeoutSeconds()) }),
    });
    return `${this.#path}?${query.toString()}`;
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
