import { join } from "node:path";
import { freePort } from "./ports.ts";
import { Server } from "./process.ts";
import { findProgram } from "./programs/find.ts";

interface Toxic {
  readonly type: "timeout" | "latency";
  readonly attributes: Readonly<Record<string, number>>;
}

/**
 * TCP proxies on 127.0.0.1 whose connections can be cut and delayed while programs use them. A cut swallows all bytes
 * both ways and says nothing, as a network does; the connections that it hit are closed when it is mended.
 */
export class Toxiproxy {
  readonly server: Server;
  readonly #api: string;

  private constructor(server: Server, api: string) {
    this.server = server;
    this.#api = api;
  }

  /** @param dir for its log, `toxiproxy.log`. */
  static async start(dir: string): Promise<Toxiproxy> {
    const port = await freePort();
    const api = `http://127.0.0.1:${port}`;
    const server = new Server({
      name: "toxiproxy",
      command: await findProgram("toxiproxy-server"),
      arguments: ["-host=127.0.0.1", `-port=${port}`],
      logFile: join(dir, "toxiproxy.log"),
      probe: async (signal) => {
        const answer = await fetch(`${api}/version`, { signal });
        if (!answer.ok) throw new Error(`/version answered ${answer.status}`);
      },
    });
    await server.start();
    return new Toxiproxy(server, api);
  }

  /** Makes a proxy. @param upstream `host:port`. @returns the proxy's own `host:port`. */
  async proxy(name: string, upstream: string): Promise<string> {
    const listen = `127.0.0.1:${await freePort()}`;
    await this.#request("POST", "/proxies", { name, listen, upstream, enabled: true });
    return listen;
  }

  /** Cuts proxies until disposed. */
  async cut(names: readonly string[]): Promise<AsyncDisposable> {
    return await this.#poison(names, { type: "timeout", attributes: { timeout: 0 } });
  }

  /** Delays every byte through proxies by so long each way, until disposed. */
  async delay(names: readonly string[], ms: number): Promise<AsyncDisposable> {
    return await this.#poison(names, { type: "latency", attributes: { latency: ms } });
  }

  async #poison(names: readonly string[], toxic: Toxic): Promise<AsyncDisposable> {
    const toxics = names.flatMap((name) =>
      ["upstream", "downstream"].map((stream) => ({ name, toxic: `${toxic.type}-${stream}`, stream })),
    );
    await Promise.all(
      toxics.map(async ({ name, toxic: id, stream }) => {
        await this.#request("POST", `/proxies/${name}/toxics`, { ...toxic, name: id, stream });
      }),
    );
    const mend = async () => {
      await Promise.all(
        toxics.map(async ({ name, toxic: id }) => {
          await this.#request("DELETE", `/proxies/${name}/toxics/${id}`);
        }),
      );
    };
    return { [Symbol.asyncDispose]: mend };
  }

  async #request(method: string, path: string, body?: object): Promise<void> {
    const answer = await fetch(`${this.#api}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) {
      throw new Error(`toxiproxy: ${method} ${path} answered ${answer.status}: ${await answer.text()}`);
    }
  }
}
