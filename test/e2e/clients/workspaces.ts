import type { Workspace } from "../../../testbed/workspaces.ts";
import type { Bed, ShardName } from "../harness/bed.ts";
import { Objects } from "../harness/objects.ts";
import { CRDS, GROUP, makeWorkspace } from "../harness/tenant.ts";

const EXPORTED = "export.rehome.test";
const APIS = "/apis/apis.kcp.io";

const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

/** With a status of its own, as every API has that controllers work on. */
const version = { name: "v1", served: true, storage: true, subresources: { status: {} } };

/** A workspace that exports `widgets`, with the endpoints that kcp makes for its provider. */
export async function makeProviderOfStatus(bed: Bed, shard: ShardName): Promise<Workspace> {
  const workspace = await makeWorkspace(bed, "provider", shard);
  const objects = new Objects(bed.frontProxy, workspace.cluster);
  const schema = `v1.widgets.${EXPORTED}`;
  await objects.create(`${APIS}/v1alpha1/apiresourceschemas`, {
    apiVersion: "apis.kcp.io/v1alpha1",
    kind: "APIResourceSchema",
    metadata: { name: schema },
    spec: {
      group: EXPORTED,
      scope: "Namespaced",
      names: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
      versions: [{ ...version, schema: anything }],
    },
  });
  await objects.create(`${APIS}/v1alpha2/apiexports`, {
    apiVersion: "apis.kcp.io/v1alpha2",
    kind: "APIExport",
    metadata: { name: EXPORTED },
    spec: { resources: [{ name: "widgets", group: EXPORTED, schema, storage: { crd: {} } }] },
  });
  await objects.until(
    `${APIS}/v1alpha2/apiexports/${EXPORTED}`,
    (found) => found?.status?.["identityHash"] !== undefined,
  );
  return workspace;
}

/** A workspace with an API of its own, `gadgets`, and the provider's bound; both are served when this returns. */
export async function makeConsumer(bed: Bed, shard: ShardName, provider: Workspace): Promise<Workspace> {
  const workspace = await makeWorkspace(bed, "consumer", shard);
  const objects = new Objects(bed.frontProxy, workspace.cluster);
  await objects.create(`${APIS}/v1alpha2/apibindings`, {
    apiVersion: "apis.kcp.io/v1alpha2",
    kind: "APIBinding",
    metadata: { name: "widgets" },
    spec: { reference: { export: { path: provider.path, name: EXPORTED } } },
  });
  await objects.create(CRDS, {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `gadgets.${GROUP}` },
    spec: {
      group: GROUP,
      scope: "Namespaced",
      names: { plural: "gadgets", singular: "gadget", kind: "Gadget", listKind: "GadgetList" },
      versions: [{ ...version, schema: { openAPIV3Schema: anything } }],
    },
  });
  await untilServed(objects, { apiVersion: `${GROUP}/v1`, kind: "Gadget" }, `/apis/${GROUP}/v1`, "gadgets");
  const widget = { apiVersion: `${EXPORTED}/v1`, kind: "Widget" };
  await untilServed(objects, widget, `/apis/${EXPORTED}/v1`, "widgets");
  return workspace;
}

/** An object is made and removed: an API that has just been made may need a moment before it takes one. */
async function untilServed(objects: Objects, type: object, root: string, plural: string): Promise<void> {
  const collection = `${root}/namespaces/default/${plural}`;
  await objects.create(collection, { ...type, metadata: { name: "first" } });
  await objects.remove(`${collection}/first`);
  await objects.untilGone(`${collection}/first`);
}
