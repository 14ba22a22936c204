import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { clusterPath } from "../../../kubernetes/kcp/logical-cluster.ts";
import type { Bed, ShardName } from "../harness/bed.ts";
import { CONFIG_MAPS, Objects, configMap } from "../harness/objects.ts";
import type { KubeObject } from "../harness/objects.ts";
import { createSchema, makeWorkspace } from "../harness/tenant.ts";
import type { Workspace } from "../../../testbed/workspaces.ts";

const APIS = "/apis/apis.kcp.io/v1alpha2";
const GROUP = "hats.rehome.test";
export const HATS = `/apis/${GROUP}/v1/namespaces/default/hats`;
const EXPORT = "hats";
const TYPE = "hatter";
const SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";

const CLAIM = { group: "", resource: "configmaps", verbs: ["*"] };
const ACCEPTED = { ...CLAIM, state: "Accepted", selector: { matchAll: true } };

export interface Actor extends Workspace {
  readonly objects: Objects;
}

function actor(bed: Bed, workspace: Workspace): Actor {
  return { ...workspace, objects: new Objects(bed.frontProxy, workspace.cluster) };
}

/** A workspace that exports an API which claims ConfigMaps, and a WorkspaceType that binds it. */
export async function makeHatProvider(bed: Bed, shard: ShardName): Promise<Actor> {
  const provider = actor(bed, await makeWorkspace(bed, "hats", shard));
  const { objects } = provider;
  const names = { plural: "hats", singular: "hat", kind: "Hat", listKind: "HatList" };
  const schema = await createSchema(objects, GROUP, names);
  await objects.create(`${APIS}/apiexports`, {
    apiVersion: "apis.kcp.io/v1alpha2",
    kind: "APIExport",
    metadata: { name: EXPORT },
    spec: {
      resources: [{ name: "hats", group: GROUP, schema, storage: { crd: {} } }],
      permissionClaims: [CLAIM],
    },
  });
  await objects.until(
    `${APIS}/apiexports/${EXPORT}`,
    (found) => found?.status?.["identityHash"] !== undefined,
  );
  await objects.create("/apis/tenancy.kcp.io/v1alpha1/workspacetypes", {
    apiVersion: "tenancy.kcp.io/v1alpha1",
    kind: "WorkspaceType",
    metadata: { name: TYPE },
    spec: {
      extend: { with: [{ name: "universal", path: "root" }] },
      defaultAPIBindings: [{ path: provider.path, export: EXPORT }],
    },
  });
  return provider;
}

/** A workspace that binds the export, accepts its claim, and has a hat. */
export async function makeConsumer(bed: Bed, shard: ShardName, provider: Workspace): Promise<Actor> {
  const consumer = actor(bed, await makeWorkspace(bed, "wearer", shard));
  await consumer.objects.create(`${APIS}/apibindings`, {
    apiVersion: "apis.kcp.io/v1alpha2",
    kind: "APIBinding",
    metadata: { name: EXPORT },
    spec: { reference: { export: { path: provider.path, name: EXPORT } }, permissionClaims: [ACCEPTED] },
  });
  await makeHat(consumer, "first");
  await consumer.objects.create(CONFIG_MAPS, configMap("claimed", { of: consumer.name }));
  return consumer;
}

export async function makeHat({ objects }: Actor, name: string): Promise<void> {
  await objects.create(HATS, { apiVersion: `${GROUP}/v1`, kind: "Hat", metadata: { name }, spec: { name } });
}

const RBAC = "rbac.authorization.k8s.io";
const BINDERS = "binders";

/** Binds a ClusterRole to the group `binders`. */
async function grant(objects: Objects, role: string): Promise<void> {
  await objects.create(`/apis/${RBAC}/v1/clusterrolebindings`, {
    apiVersion: `${RBAC}/v1`,
    kind: "ClusterRoleBinding",
    metadata: { name: BINDERS },
    roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: role },
    subjects: [{ apiGroup: RBAC, kind: "Group", name: BINDERS }],
  });
}

/** Lets the group `binders` bind the export, and nobody else but administrators. */
export async function admitBinders({ objects }: Actor): Promise<void> {
  await objects.create(`/apis/${RBAC}/v1/clusterroles`, {
    apiVersion: `${RBAC}/v1`,
    kind: "ClusterRole",
    metadata: { name: BINDERS },
    rules: [
      { apiGroups: ["apis.kcp.io"], resources: ["apiexports"], resourceNames: [EXPORT], verbs: ["bind"] },
    ],
  });
  await grant(objects, BINDERS);
}

/** What one request of one of `binders` to bind the export is answered, in a workspace at this shard. */
export async function bindOnce(bed: Bed, shard: ShardName, provider: Workspace): Promise<string> {
  const { cluster } = await makeWorkspace(bed, "binder", shard);
  await grant(new Objects(bed.frontProxy, cluster), "cluster-admin");
  const { api } = bed.shards[shard];
  const asGroups = [BINDERS, "system:authenticated"];
  const mayRead = async () =>
    (await api.request({ path: clusterPath(cluster, CONFIG_MAPS), asGroups })).status;
  await expect.poll(mayRead).toBe(200);
  const { status, body } = await api.request({
    method: "POST",
    path: clusterPath(cluster, `${APIS}/apibindings`),
    asGroups,
    body: {
      apiVersion: "apis.kcp.io/v1alpha2",
      kind: "APIBinding",
      metadata: { name: EXPORT },
      spec: { reference: { export: { path: provider.path, name: EXPORT } } },
    },
  });
  return status === 201 ? "bound" : `${status} ${body}`;
}

/** A workspace of the provider's type, below `root`, with the API that the type binds. */
export async function makeTyped(bed: Bed, shard: ShardName, provider: Workspace): Promise<Actor> {
  const root = new Objects(bed.frontProxy, "root");
  const name = `typed-${randomBytes(4).toString("hex")}`;
  const workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
  await root.create(workspaces, {
    apiVersion: "tenancy.kcp.io/v1alpha1",
    kind: "Workspace",
    metadata: { name },
    spec: {
      type: { name: TYPE, path: provider.path },
      location: { selector: { matchLabels: { name: shard } } },
    },
  });
  await root.until(`${workspaces}/${name}`, (found) => found?.status?.["phase"] === "Ready");
  const { spec } = await root.get(`${workspaces}/${name}`);
  return actor(bed, { name, path: `root:${name}`, cluster: String(spec?.["cluster"]), shard });
}

/** Where the provider is told to look, by shard. */
export async function endpoints(bed: Bed, { objects }: Actor): Promise<Map<ShardName, string>> {
  const { status } = await objects.get(`${SLICES}/${EXPORT}`);
  const urls = ((status?.["endpoints"] ?? []) as { url: string }[]).map(({ url }) => new URL(url));
  const shards = Object.entries(bed.shards).map(([name, { api }]) => {
    const url = urls.find(({ origin }) => origin === api.url);
    return [name as ShardName, url?.pathname] as const;
  });
  return new Map(shards.filter((entry): entry is [ShardName, string] => entry[1] !== undefined));
}

/** What the provider sees at one shard: `<cluster>/<name>` of each object of a resource. */
export async function seenByProvider(
  bed: Bed,
  provider: Actor,
  shard: ShardName,
  resource: string,
): Promise<string[]> {
  const base = (await endpoints(bed, provider)).get(shard);
  if (base === undefined) return [];
  const path = `${base}/clusters/*${resource}`;
  const { items } = await bed.shards[shard].api.json<{ items: KubeObject[] }>({ path });
  return items
    .map(({ metadata }) => `${metadata.annotations?.["kcp.io/cluster"]}/${metadata.name}`)
    .toSorted();
}

/** Writes through the provider's view into a consumer's workspace. */
export async function writeAsProvider(
  bed: Bed,
  provider: Actor,
  shard: ShardName,
  consumer: Actor,
  name: string,
): Promise<void> {
  const base = (await endpoints(bed, provider)).get(shard)!;
  await bed.shards[shard].api.json({
    method: "POST",
    path: base + clusterPath(consumer.cluster, CONFIG_MAPS),
    body: configMap(name, { by: "provider" }),
  });
}

export const ALL_HATS = `/apis/${GROUP}/v1/hats`;
export const ALL_CONFIG_MAPS = "/api/v1/configmaps";

/** Reads and writes a bound object of each consumer until stopped. @returns what did not succeed. */
export function useHats(consumers: readonly Actor[]): { stop(): Promise<string[]> } {
  const failures: string[] = [];
  const stop = new AbortController();
  let requests = 0;
  const use = async ({ objects }: Actor) => {
    for (let turn = 0; !stop.signal.aborted; turn += 1) {
      const path = objects.path(`${HATS}/first`);
      for (const input of [
        { path: objects.path(HATS) },
        { method: "PATCH" as const, path, body: { spec: { turn } } },
      ]) {
        const { status, body } = await objects.server.request(input);
        requests += 1;
        if (status !== 200) failures.push(`${status} ${body.slice(0, 100)}`);
      }
      await delay(20);
    }
  };
  const running = Promise.all(consumers.map(use));
  return {
    async stop() {
      stop.abort();
      await running;
      expect(requests).toBeGreaterThan(50);
      return failures;
    },
  };
}
