/** The resources that the workload is made of, and how a version is written into one of their objects. */

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** An object as the API server answers it. */
export interface StoredObject {
  readonly metadata: ObjectMeta & { readonly uid: string; readonly resourceVersion: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: { readonly version?: number; readonly payload?: string };
}

export interface Content {
  /** Counts the writes of this object. */
  readonly version: number;
  readonly payload: string;
}

export interface Resource {
  readonly plural: "configmaps" | "secrets" | "widgets" | "gadgets";
  /** How its content is laid out: `data` of strings, `data` of base64, or `spec`. */
  readonly layout: "data" | "base64" | "spec";
  readonly apiVersion: string;
  readonly kind: string;
  /** `/api/v1` or `/apis/<group>/<version>`. */
  readonly api: string;
  /** For people. */
  readonly title: string;
}

export const configMaps: Resource = {
  plural: "configmaps",
  layout: "data",
  apiVersion: "v1",
  kind: "ConfigMap",
  api: "/api/v1",
  title: "ConfigMaps",
};
export const secrets: Resource = {
  plural: "secrets",
  layout: "base64",
  apiVersion: "v1",
  kind: "Secret",
  api: "/api/v1",
  title: "Secrets",
};
/** Of a CustomResourceDefinition in the workspace itself. */
export const widgets: Resource = {
  plural: "widgets",
  layout: "spec",
  apiVersion: "toys.example.com/v1",
  kind: "Widget",
  api: "/apis/toys.example.com/v1",
  title: "own custom resources",
};
/** Of an APIExport of another workspace. */
export const gadgets: Resource = {
  plural: "gadgets",
  layout: "spec",
  apiVersion: "tools.example.com/v1",
  kind: "Gadget",
  api: "/apis/tools.example.com/v1",
  title: "bound custom resources",
};
export const resources = [configMaps, secrets, widgets, gadgets] as const;

/**
 * `/clusters/<cluster or path>/api/v1/namespaces/<namespace>/configmaps[/<name>]`
 * @param cluster undefined for an API server that has but one
 */
export function objectPath(
  cluster: string | undefined,
  resource: Resource,
  namespace: string,
  name?: string,
): string {
  const prefix = cluster === undefined ? "" : `/clusters/${cluster}`;
  const collection = `${prefix}${resource.api}/namespaces/${namespace}/${resource.plural}`;
  return name === undefined ? collection : `${collection}/${name}`;
}

/** The collection over all namespaces. */
export function collectionPath(cluster: string, resource: Resource): string {
  return `/clusters/${cluster}${resource.api}/${resource.plural}`;
}

export function makeObject(resource: Resource, metadata: ObjectMeta, content: Content): object {
  const { apiVersion, kind } = resource;
  const { version, payload } = content;
  const head = { apiVersion, kind, metadata };
  if (resource.layout === "spec") return { ...head, spec: { version, payload } };
  const encode = (text: string) =>
    resource.layout === "base64" ? Buffer.from(text).toString("base64") : text;
  return { ...head, data: { version: encode(String(version)), payload: encode(payload) } };
}

/** Undefined for an object that was not made by the workload. */
export function contentOf(resource: Resource, object: StoredObject): Content | undefined {
  const { spec, data } = object;
  if (resource.layout === "spec") {
    return spec?.version === undefined ? undefined : { version: spec.version, payload: spec.payload ?? "" };
  }
  if (data?.["version"] === undefined) return undefined;
  const decode = (text = "") =>
    resource.layout === "base64" ? Buffer.from(text, "base64").toString() : text;
  return { version: Number(decode(data["version"])), payload: decode(data["payload"]) };
}

const payloadLength = 600;

/** With metadata about 1 KB in etcd, as a small custom resource has. No two objects have the same. */
export function payloadOf(name: string): string {
  return `${name} `.repeat(Math.ceil(payloadLength / (name.length + 1))).slice(0, payloadLength);
}

/** Schema of {@link widgets} and {@link gadgets}. */
export const customResourceSchema = {
  type: "object",
  properties: {
    apiVersion: { type: "string" },
    kind: { type: "string" },
    metadata: { type: "object" },
    spec: {
      type: "object",
      properties: { version: { type: "integer" }, payload: { type: "string" } },
    },
  },
} as const;
