import { request as httpsRequest } from "node:https";
import type { RequestOptions } from "node:https";
import { createInterface } from "node:readline";
import { KubeConfig } from "@kubernetes/client-node";
import type { KubeObject } from "./objects.ts";

export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: KubeObject & { readonly code?: number; readonly message?: string };
}

/** One watch request as it goes over the wire: no list before it, no second try after it. */
export class RawWatch {
  readonly status: number;
  readonly events: WatchEvent[] = [];
  /** Settles when the server, or what is between, has ended the stream. */
  readonly ended: Promise<void>;
  readonly #close: () => void;
  #news = Promise.withResolvers<void>();

  private constructor(status: number, lines: AsyncIterable<string>, close: () => void) {
    this.status = status;
    this.#close = close;
    this.ended = this.#read(lines);
  }

  /** @param path with query, from the root of the front-proxy. */
  static async open(kubeconfig: string, path: string): Promise<RawWatch> {
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    config.setCurrentContext("base");
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    const url = new URL(path, config.getCurrentCluster()?.server);
    const { promise, resolve, reject } = Promise.withResolvers<RawWatch>();
    // An agent of its own: the front-proxy keeps whole connections on the shard that they were first sent to.
    const request = httpsRequest(url, { ...options, agent: false }, (response) => {
      const lines = createInterface({ input: response });
      response.on("error", () => lines.close());
      resolve(new RawWatch(response.statusCode ?? 0, lines, () => request.destroy()));
    });
    request.on("error", reject);
    request.end();
    return await promise;
  }

  close(): void {
    this.#close();
  }

  /** Waits until an event has come that `matches`, also before this was called. */
  async until(matches: (event: WatchEvent) => boolean, withinMs = 20_000): Promise<WatchEvent> {
    const late = Promise.withResolvers<never>();
    late.promise.catch(() => undefined);
    const timer = setTimeout(
      () => late.reject(new Error(`no such event among ${this.describe()}`)),
      withinMs,
    );
    try {
      for (;;) {
        const found = this.events.find(matches);
        if (found) return found;
        await Promise.race([this.#news.promise, late.promise]);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  describe(): string {
    return JSON.stringify(
      this.events.map(({ type, object }) => `${type} ${object.metadata?.name ?? object.message}`),
    );
  }

  async #read(lines: AsyncIterable<string>): Promise<void> {
    try {
      for await (const line of lines) {
        if (line === "") continue;
        this.events.push(JSON.parse(line) as WatchEvent);
        this.#news.resolve();
        this.#news = Promise.withResolvers<void>();
      }
    } catch {
      // A stream that is cut in the middle of a line has ended all the same.
    }
  }
}
