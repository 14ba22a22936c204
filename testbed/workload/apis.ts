import { setTimeout as delay } from "node:timers/promises";
import { createWorkspace } from "../workspaces.ts";
import type { Workspace } from "../workspaces.ts";
import type { FrontProxy } from "./front-proxy.ts";
import { collectionPath, customResourceSchema, gadgets, widgets } from "./resources.ts";
import type { Resource } from "./resources.ts";

const lookEveryMs = 100;
const servedWithinMs = 60_000;

function namesOf({ plural, kind }: Resource) {
  return { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` };
}

function groupOf({ apiVersion }: Resource): string {
  return apiVersion.slice(0, apiVersion.indexOf("/"));
}

/** Gives the workspace a CustomResourceDefinition of its own: {@link widgets}. */
export async function installOwnApi(frontProxy: FrontProxy, cluster: string): Promise<void> {
  const group = groupOf(widgets);
  await frontProxy.json({
    method: "POST",
    path: `/clusters/${cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions`,
    body: {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `${widgets.plural}.${group}` },
      spec: {
        group,
        scope: "Namespaced",
        names: namesOf(widgets),
        versions: [
          { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: customResourceSchema } },
        ],
      },
    },
  });
  await awaitServed(frontProxy, cluster, widgets);
}

/**
 * Makes a workspace that exports {@link gadgets} to others.
 * @param shard that hosts it, which may be another than that of its consumers
 */
export async function createProvider(
  frontProxy: FrontProxy,
  options: { kubeconfig: string; name: string; shard: string },
): Promise<Workspace> {
  const provider = await createWorkspace(options);
  const group = groupOf(gadgets);
  const schema = `v1.${gadgets.plural}.${group}`;
  const apis = `/clusters/${provider.cluster}/apis/apis.kcp.io`;
  await frontProxy.json({
    method: "POST",
    path: `${apis}/v1alpha1/apiresourceschemas`,
    body: {
      apiVersion: "apis.kcp.io/v1alpha1",
      kind: "APIResourceSchema",
      metadata: { name: schema },
      spec: {
        group,
        scope: "Namespaced",
        names: namesOf(gadgets),
        versions: [{ name: "v1", served: true, storage: true, schema: customResourceSchema }],
      },
    },
  });
  await frontProxy.json({
    method: "POST",
    path: `${apis}/v1alpha2/apiexports`,
    body: {
      apiVersion: "apis.kcp.io/v1alpha2",
      kind: "APIExport",
      metadata: { name: groupOf(gadgets) },
      spec: { resources: [{ name: gadgets.plural, group, schema, storage: { crd: {} } }] },
    },
  });
  return provider;
}

/** Binds the API of a workspace made by {@link createProvider}, and waits until it is served. */
export async function bindApi(frontProxy: FrontProxy, cluster: string, provider: Workspace): Promise<void> {
  const name = groupOf(gadgets);
  await frontProxy.json({
    method: "POST",
    path: `/clusters/${cluster}/apis/apis.kcp.io/v1alpha2/apibindings`,
    body: {
      apiVersion: "apis.kcp.io/v1alpha2",
      kind: "APIBinding",
      metadata: { name },
      spec: { reference: { export: { path: provider.path, name } } },
    },
  });
  await awaitServed(frontProxy, cluster, gadgets);
}

/** An API server tells nobody when it begins to serve a resource. */
async function awaitServed(frontProxy: FrontProxy, cluster: string, resource: Resource): Promise<void> {
  const path = `${collectionPath(cluster, resource)}?limit=1`;
  const deadline = performance.now() + servedWithinMs;
  for (;;) {
    const { status } = await frontProxy.send({ method: "GET", path });
    if (status === 200) return;
    if (performance.now() > deadline)
      throw new Error(`${resource.plural} of ${cluster} still answer ${status}`);
    await delay(lookEveryMs);
  }
}
