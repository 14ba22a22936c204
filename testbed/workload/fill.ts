import { FrontProxy } from "./front-proxy.ts";
import {
  configMaps,
  contentOf,
  makeObject,
  objectPath,
  payloadOf,
  secrets,
  widgets,
  gadgets,
} from "./resources.ts";
import type { ObjectMeta, OwnerReference, Resource, StoredObject } from "./resources.ts";

/** One object of the filling, as it must be found again. */
export interface Filled {
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** An owner with what the garbage collector must delete after it. */
export interface OwnedFamily {
  readonly owner: Filled;
  /** All of it, the dependents of dependents included. */
  readonly dependents: readonly Filled[];
}

export interface Filling {
  readonly objects: readonly Filled[];
  readonly families: OwnedFamily[];
  /** Objects that a finalizer holds when they are deleted. */
  readonly held: Filled[];
}

export interface FillOptions {
  readonly objects: number;
  /** Told now and then how many are there. */
  readonly onProgress?: (done: number) => void;
}

export const finalizer = "example.com/hold";
/** Requests in flight: enough to keep an API server busy, few enough to stay within its own limits. */
const concurrency = 48;
const namespaces = ["default", "apps", "billing", "web"] as const;
/** Of ten objects that belong to nobody. */
const mix = [
  configMaps,
  configMaps,
  configMaps,
  configMaps,
  secrets,
  secrets,
  widgets,
  widgets,
  gadgets,
  gadgets,
];
/** One object in so many has a finalizer. */
const heldEvery = 50;
/** One family of owner, two levels of dependents, for so many objects. */
const familyEvery = 25;
const familySize = 5;
const progressEvery = 250;

/**
 * Fills a workspace with so many objects: ConfigMaps, Secrets, own and bound
 * custom resources in four namespaces, some with finalizers, and owners whose
 * dependents' keys sort before their own. The APIs must be served.
 */
export async function fill(frontProxy: FrontProxy, cluster: string, options: FillOptions): Promise<Filling> {
  const filler = new Filler(frontProxy, cluster, options);
  return await filler.run();
}

class Filler {
  readonly #frontProxy: FrontProxy;
  readonly #cluster: string;
  readonly #options: FillOptions;
  readonly #objects: Filled[] = [];
  readonly #families: OwnedFamily[] = [];
  readonly #held: Filled[] = [];

  constructor(frontProxy: FrontProxy, cluster: string, options: FillOptions) {
    this.#frontProxy = frontProxy;
    this.#cluster = cluster;
    this.#options = options;
  }

  async run(): Promise<Filling> {
    for (const name of namespaces.slice(1)) await this.#makeNamespace(name);
    const families = Math.floor(this.#options.objects / familyEvery);
    const single = this.#options.objects - families * familySize;
    const tasks = [
      ...Array.from({ length: families }, (_, index) => async () => await this.#family(index)),
      ...Array.from({ length: single }, (_, index) => async () => await this.#single(index)),
    ];
    const takers = Array.from({ length: concurrency }, async () => {
      for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) await task();
    });
    await Promise.all(takers);
    return { objects: this.#objects, families: this.#families, held: this.#held };
  }

  async #makeNamespace(name: string): Promise<void> {
    await this.#frontProxy.json({
      method: "POST",
      path: `/clusters/${this.#cluster}/api/v1/namespaces`,
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name } },
    });
  }

  async #single(index: number): Promise<void> {
    const resource = mix[index % mix.length] as Resource;
    const isHeld = index % heldEvery === 0;
    const made = await this.#make(resource, namespaceOf(index), {
      name: `filler-${index}`,
      ...(isHeld ? { finalizers: [finalizer] } : {}),
    });
    if (isHeld) this.#held.push(made);
  }

  /** Owner, its dependents, and a dependent of a dependent. In byte order of keys the youngest come first. */
  async #family(index: number): Promise<void> {
    const namespace = namespaceOf(index);
    const owner = await this.#make(index % 2 === 0 ? configMaps : widgets, namespace, {
      name: `owner-${index}`,
    });
    const owned = async (resource: Resource, name: string, by: Filled) =>
      await this.#make(resource, namespace, { name: `${name}-${index}`, ownerReferences: [referenceTo(by)] });
    const middle = await owned(configMaps, "middle", owner);
    const dependents = [
      middle,
      await owned(configMaps, "leaf", middle),
      await owned(configMaps, "dependent", owner),
      await owned(secrets, "dependent", owner),
    ];
    this.#families.push({ owner, dependents });
  }

  async #make(resource: Resource, namespace: string, metadata: ObjectMeta): Promise<Filled> {
    const { name } = metadata;
    const object = await this.#frontProxy.json<StoredObject>({
      method: "POST",
      path: objectPath(this.#cluster, resource, namespace),
      body: makeObject(resource, { ...metadata, namespace }, { version: 1, payload: payloadOf(name) }),
    });
    const filled = { resource, namespace, name, uid: object.metadata.uid };
    this.#objects.push(filled);
    if (this.#objects.length % progressEvery === 0) this.#options.onProgress?.(this.#objects.length);
    return filled;
  }
}

function namespaceOf(index: number): string {
  return namespaces[Math.floor(index / mix.length) % namespaces.length] as string;
}

function referenceTo({ resource, name, uid }: Filled): OwnerReference {
  return { apiVersion: resource.apiVersion, kind: resource.kind, name, uid };
}

/** Objects of the filling that are gone or not as they were, in words. */
export async function missingOf(
  frontProxy: FrontProxy,
  cluster: string,
  filled: readonly Filled[],
): Promise<string[]> {
  const missing: string[] = [];
  for (const resource of new Set(filled.map((object) => object.resource))) {
    for (const namespace of namespaces) {
      const wanted = filled.filter(
        (object) => object.resource === resource && object.namespace === namespace,
      );
      const found = await listAll(frontProxy, objectPath(cluster, resource, namespace));
      missing.push(...compare(wanted, found));
    }
  }
  return missing;
}

function compare(wanted: readonly Filled[], found: ReadonlyMap<string, StoredObject>): string[] {
  return wanted.flatMap(({ resource, namespace, name, uid }) => {
    const object = found.get(name);
    const title = `${resource.plural}/${namespace}/${name}`;
    if (object === undefined) return [`${title} is gone`];
    if (object.metadata.uid !== uid) return [`${title} has another uid`];
    const content = contentOf(resource, object);
    return content?.payload === payloadOf(name) ? [] : [`${title} has another content`];
  });
}

interface Page {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly StoredObject[];
}

async function listAll(frontProxy: FrontProxy, path: string): Promise<Map<string, StoredObject>> {
  const found = new Map<string, StoredObject>();
  let next = "";
  do {
    const query = `?limit=1000${next === "" ? "" : `&continue=${encodeURIComponent(next)}`}`;
    const page: Page = await frontProxy.json<Page>({ method: "GET", path: `${path}${query}` });
    for (const item of page.items) found.set(item.metadata.name, item);
    next = page.metadata.continue ?? "";
  } while (next !== "");
  return found;
}
