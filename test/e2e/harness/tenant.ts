import { randomBytes } from "node:crypto";
import { expect } from "vitest";
import { createWorkspace, deleteWorkspace } from "../../../testbed/workspaces.ts";
import type { Workspace } from "../../../testbed/workspaces.ts";
import type { Bed, ShardName } from "./bed.ts";
import { CONFIG_MAPS, Objects, SECRETS, configMap, ownedBy } from "./objects.ts";
import type { KubeObject } from "./objects.ts";

/** Stands in every ConfigMap and Secret: wherever it is found outside the stores, data has leaked. */
export const MARKER = "tenant-data-5f2c8e";

export const GROUP = "shop.rehome.test";
export const GADGETS = `/apis/${GROUP}/v1/namespaces/default/gadgets`;
export const EXPORTED = "export.rehome.test";
export const WIDGETS = `/apis/${EXPORTED}/v1/namespaces/default/widgets`;
export const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
export const APIS = "/apis/apis.kcp.io/v1alpha2";

const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

export function crd(group: string, plural: string, kind: string): object {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural, singular: plural.slice(0, -1), kind, listKind: `${kind}List` },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: anything } }],
    },
  };
}

function uniqueName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString("hex")}`;
}

export async function makeWorkspace(bed: Bed, prefix: string, shard: ShardName): Promise<Workspace> {
  return await createWorkspace({ kubeconfig: bed.kubeconfig, name: uniqueName(prefix), shard });
}

/** An APIResourceSchema for objects of any content. @returns its name. */
export async function createSchema(
  objects: Objects,
  group: string,
  names: { readonly plural: string; readonly kind: string },
): Promise<string> {
  const name = `v1.${names.plural}.${group}`;
  await objects.create("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
    apiVersion: "apis.kcp.io/v1alpha1",
    kind: "APIResourceSchema",
    metadata: { name },
    spec: {
      group,
      scope: "Namespaced",
      names,
      versions: [{ name: "v1", served: true, storage: true, schema: anything }],
    },
  });
  return name;
}

/** A workspace that exports the API `widgets`. */
export async function makeProvider(bed: Bed, shard: ShardName): Promise<Workspace> {
  const workspace = await makeWorkspace(bed, "provider", shard);
  const objects = new Objects(bed.frontProxy, workspace.cluster);
  const names = { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" };
  const schema = await createSchema(objects, EXPORTED, names);
  await objects.create(`${APIS}/apiexports`, {
    apiVersion: "apis.kcp.io/v1alpha2",
    kind: "APIExport",
    metadata: { name: EXPORTED },
    spec: { resources: [{ name: "widgets", group: EXPORTED, schema, storage: { crd: {} } }] },
  });
  await objects.until(
    `${APIS}/apiexports/${EXPORTED}`,
    (found) => found?.status?.["identityHash"] !== undefined,
  );
  return workspace;
}

/** A small workspace in use: an API of its own, a bound API, owners with dependents, secrets. */
export interface Tenant extends Workspace {
  readonly objects: Objects;
  readonly byPath: Objects;
}

/** @param provider whose API it binds. */
export async function makeTenant(bed: Bed, shard: ShardName, provider: Workspace): Promise<Tenant> {
  const workspace = await makeWorkspace(bed, "tenant", shard);
  const objects = new Objects(bed.frontProxy, workspace.cluster);
  await bindWidgets(objects, "widgets", provider);
  await objects.create(CRDS, crd(GROUP, "gadgets", "Gadget"));
  await fillTenant(objects);
  return { ...workspace, objects, byPath: new Objects(bed.frontProxy, workspace.path) };
}

export async function bindWidgets(objects: Objects, name: string, provider: Workspace): Promise<void> {
  await objects.create(`${APIS}/apibindings`, {
    apiVersion: "apis.kcp.io/v1alpha2",
    kind: "APIBinding",
    metadata: { name },
    spec: { reference: { export: { path: provider.path, name: EXPORTED } } },
  });
}

async function fillTenant(objects: Objects): Promise<void> {
  const apiVersion = `${GROUP}/v1`;
  for (const name of ["alpha", "beta", "gamma"]) {
    await objects.create(GADGETS, {
      apiVersion,
      kind: "Gadget",
      metadata: { name },
      spec: { size: name.length },
    });
    const widget = { apiVersion: `${EXPORTED}/v1`, kind: "Widget", metadata: { name }, spec: { of: name } };
    await objects.create(WIDGETS, widget);
    await objects.create(CONFIG_MAPS, configMap(`settings-${name}`, { marker: MARKER }));
    await objects.create(SECRETS, secret(`token-${name}`));
  }
}

function secret(name: string, owner?: KubeObject): object {
  const data = { marker: Buffer.from(MARKER).toString("base64") };
  return { apiVersion: "v1", kind: "Secret", metadata: { name, ...ownedBy(owner) }, data };
}

const COLLECTIONS = [GADGETS, WIDGETS, CONFIG_MAPS, SECRETS, "/api/v1/namespaces"];

/** What is served of a tenant, without what a shard rewrites by itself. */
export async function contents(objects: Objects): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>();
  for (const collection of COLLECTIONS) {
    for (const { metadata, spec, data } of (await objects.list(collection)).items) {
      const { name, uid } = metadata;
      found.set(`${collection}/${name}`, { uid, spec, data: name === "kube-root-ca.crt" ? "any" : data });
    }
  }
  return found;
}

/** Reads and writes, of own and bound APIs too, by path and by id, all through the front-proxy. */
export async function expectServing(tenant: Tenant): Promise<void> {
  const { objects, byPath } = tenant;
  expect(await contents(byPath)).toEqual(await contents(objects));
  const stamp = { spec: { stamp: uniqueName("stamp") } };
  for (const path of [`${GADGETS}/alpha`, `${WIDGETS}/alpha`]) {
    await byPath.patch(path, stamp);
    expect((await objects.get(path)).spec).toMatchObject(stamp.spec);
  }
}

/** Also what controllers do: garbage collection over two levels, namespaces made and emptied. */
export async function expectAlive(tenant: Tenant): Promise<void> {
  await expectServing(tenant);
  const { objects } = tenant;
  await expectGarbageCollected(objects);
  const namespace = uniqueName("space");
  await objects.create("/api/v1/namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: namespace },
  });
  await objects.until(
    `/api/v1/namespaces/${namespace}/configmaps/kube-root-ca.crt`,
    (found) => found !== undefined,
  );
  await objects.remove(`/api/v1/namespaces/${namespace}`);
  await objects.untilGone(`/api/v1/namespaces/${namespace}`);
}

/** Owners that were made before a move, deleted after it: {@link makeOwners}. */
export async function makeOwners(objects: Objects): Promise<string> {
  const name = uniqueName("owner");
  const apiVersion = `${GROUP}/v1`;
  const owner = await objects.create(GADGETS, { apiVersion, kind: "Gadget", metadata: { name } });
  const child = await objects.create(CONFIG_MAPS, configMap(`${name}-child`, { marker: MARKER }, owner));
  await objects.create(SECRETS, secret(`${name}-grandchild`, child));
  return name;
}

/** Deletes an owner and waits until its dependents of both levels are gone. */
export async function deleteOwners(objects: Objects, name: string): Promise<void> {
  expect(await objects.find(`${SECRETS}/${name}-grandchild`)).toBeDefined();
  await objects.remove(`${GADGETS}/${name}`);
  await objects.untilGone(`${CONFIG_MAPS}/${name}-child`);
  await objects.untilGone(`${SECRETS}/${name}-grandchild`);
}

async function expectGarbageCollected(objects: Objects): Promise<void> {
  await deleteOwners(objects, await makeOwners(objects));
}

export async function removeWorkspace(bed: Bed, { name }: Workspace): Promise<void> {
  await deleteWorkspace({ kubeconfig: bed.kubeconfig, name });
}
