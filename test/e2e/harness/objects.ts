import { setTimeout as delay } from "node:timers/promises";
import { ApiError } from "../../../kubernetes/api-server.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { clusterPath } from "../../../kubernetes/kcp/logical-cluster.ts";
import { pollUntil } from "../../../kubernetes/wait.ts";

/** The fields that tests look at; the rest is carried along. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

interface List {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly KubeObject[];
}

const RETRY_MS = 50;
/** kcp asks again after a minute where a fence, or a server that was gone, has kept it waiting. */
const PATIENCE_MS = 120_000;

/** Collections of objects of one logical cluster, named by id or path, through one server. */
export class Objects {
  readonly server: ApiServer;
  readonly cluster: string;

  constructor(server: ApiServer, cluster: string) {
    this.server = server;
    this.cluster = cluster;
  }

  path(path: string): string {
    return clusterPath(this.cluster, path);
  }

  /** Creates an object; an API that has just been made may need a moment before it takes one. */
  async create(collection: string, body: object): Promise<KubeObject> {
    const end = performance.now() + PATIENCE_MS;
    for (;;) {
      const path = this.path(collection);
      const { status, body: answer } = await this.server.request({ method: "POST", path, body });
      if (status === 201) return JSON.parse(answer) as KubeObject;
      const isFinal = status === 400 || status === 409 || status === 422;
      if (isFinal || performance.now() > end) throw new Error(`POST ${path} answered ${status}: ${answer}`);
      await delay(RETRY_MS);
    }
  }

  async get(path: string): Promise<KubeObject> {
    return await this.#read<KubeObject>(path);
  }

  async find(path: string): Promise<KubeObject | undefined> {
    return await this.server.find<KubeObject>({ path: this.path(path) });
  }

  async list(collection: string): Promise<List> {
    return await this.#read<List>(collection);
  }

  /** Comes back when it is told to, as every client does: a custom resource that was never asked for is set up first. */
  async #read<T>(path: string): Promise<T> {
    const end = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        return await this.server.json<T>({ path: this.path(path) });
      } catch (error) {
        const later = error instanceof ApiError && error.status === 429 && performance.now() < end;
        if (!later) throw error;
        await delay(RETRY_MS);
      }
    }
  }

  async patch(path: string, body: object): Promise<KubeObject> {
    return await this.server.json<KubeObject>({ method: "PATCH", path: this.path(path), body });
  }

  async remove(path: string): Promise<void> {
    await this.server.json({ method: "DELETE", path: this.path(path) });
  }

  async untilGone(path: string): Promise<void> {
    await this.until(path, (found) => found === undefined);
  }

  /** Waits until an object is as wished. */
  async until(path: string, holds: (found: KubeObject | undefined) => boolean): Promise<void> {
    const look = async () => {
      const found = await this.find(path);
      return holds(found) || JSON.stringify(found ?? "absent").slice(0, 500);
    };
    await pollUntil(`${this.path(path)} is as awaited`, look, { everyMs: 50, deadlineMs: PATIENCE_MS });
  }
}

export const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";
export const SECRETS = "/api/v1/namespaces/default/secrets";

export function configMap(name: string, data: Record<string, string>, owner?: KubeObject): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...ownedBy(owner) }, data };
}

export function ownedBy(owner: KubeObject | undefined): object {
  if (owner === undefined) return {};
  const { apiVersion, kind, metadata } = owner;
  return { ownerReferences: [{ apiVersion, kind, name: metadata.name, uid: metadata.uid }] };
}
