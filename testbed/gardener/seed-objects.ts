import type { ApiServer } from "../../kubernetes/api-server.ts";
import { awaitObject, merge } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { demo } from "./garden-objects.ts";
import { seedCrds, withAdvertisedUrls } from "./modules.ts";

const { namespace } = demo;
const past = "2026-01-01T00:00:00Z";
const succeeded = {
  type: "Reconcile",
  state: "Succeeded",
  progress: 100,
  description: "done",
  lastUpdateTime: past,
};
export const controllers = ["cluster-autoscaler", "machine-controller-manager", "gardener-resource-manager"];

/** Makes a cluster a seed: Gardener's and druid's CRDs, the gardenlet's configuration and the ingress gateway. */
export async function makeSeed(api: ApiServer, options: { readonly newDruid: boolean }): Promise<void> {
  for (const crd of await seedCrds()) {
    const isEtcd = crd.metadata.name === "etcds.druid.gardener.cloud";
    const body = isEtcd && options.newDruid ? withAdvertisedUrls(crd) : crd;
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    await api.json({ method: "POST", path, body });
    await awaitServed(api, crd.metadata.name);
  }
  for (const name of ["garden", "istio-ingress"])
    await post(api, "/api/v1/namespaces", "v1", "Namespace", { name });
  const config = "controllers:\n  shoot:\n    respectSyncPeriodOverwrite: true\n";
  await post(
    api,
    "/api/v1/namespaces/garden/configmaps",
    "v1",
    "ConfigMap",
    { name: "gardenlet-configmap-1" },
    { data: { "config.yaml": config } },
  );
  const ports = [{ name: "tls", port: 443, targetPort: 9443 }];
  await post(
    api,
    "/api/v1/namespaces/istio-ingress/services",
    "v1",
    "Service",
    { name: "istio-ingressgateway" },
    { spec: { type: "LoadBalancer", ports } },
  );
}

async function awaitServed(api: ApiServer, name: string): Promise<void> {
  type Served = KubeObject & { status?: { conditions?: { type: string; status: string }[] } };
  const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const served = (crd: Served | undefined) =>
    crd?.status?.conditions?.some(({ type, status }) => type === "Established" && status === "True") ??
    "not yet";
  const holds = (crd: Served | undefined) => served(crd) || "not yet";
  const options = { what: `${name} is served`, deadlineMs: 60_000, signal: AbortSignal.timeout(60_000) };
  await awaitObject<Served>(api, { path, name }, holds, options);
}

export interface ControlPlaneOptions {
  /** Contents of Secrets that are not just text, by name and key. */
  readonly contents?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Whether there is a VPN, as for every Shoot with workers. Default true. */
  readonly vpn?: boolean;
  /** Of the DNSRecords. Default 120, as Gardener's. */
  readonly ttlSeconds?: number;
}

/** What gardenlet, druid and the extensions have made of the Shoot in its seed. */
export async function makeControlPlane(api: ApiServer, options: ControlPlaneOptions = {}): Promise<void> {
  const { contents = {}, vpn = true, ttlSeconds = 120 } = options;
  const labels = { "gardener.cloud/role": "shoot", "shoot.gardener.cloud/provider": "local" };
  await post(api, "/api/v1/namespaces", "v1", "Namespace", { name: namespace, labels });
  for (const [name, data, persist] of secrets) {
    const object = { type: "Opaque", data: encoded(contents[name] ?? data) };
    await post(
      api,
      core("secrets"),
      "v1",
      "Secret",
      { name, ...(persist && { labels: { persist: "true" } }) },
      object,
    );
  }
  await post(
    api,
    core("configmaps"),
    "v1",
    "ConfigMap",
    { name: "kube-apiserver-config" },
    { data: { a: "1" } },
  );
  for (const [name, replicas] of [
    ["kube-apiserver", 2],
    ["kube-controller-manager", 2],
    ...(vpn ? [["vpn-seed-server", 1] as const] : []),
    ...controllers.map((controller) => [controller, 1] as const),
  ] as const)
    await post(
      api,
      apps("deployments"),
      "apps/v1",
      "Deployment",
      { name },
      { spec: deployment(name, replicas) },
    );
  await post(
    api,
    core("services"),
    "v1",
    "Service",
    { name: "kube-apiserver" },
    { spec: { ports: [{ port: 443 }], selector: { app: "kube-apiserver" } } },
  );
  for (const name of ["etcd-main", "etcd-events"])
    await post(api, druid("etcds"), "druid.gardener.cloud/v1alpha1", "Etcd", { name }, { spec: etcd(name) });
  await makeExtensions(api, ttlSeconds);
  await makeMachines(api);
  for (const name of ["shoot-core-coredns", "shoot-core-system"]) {
    const metadata = { name, finalizers: ["resources.gardener.cloud/gardener-resource-manager"] };
    const path = `/apis/resources.gardener.cloud/v1alpha1/namespaces/${namespace}/managedresources`;
    await post(api, path, "resources.gardener.cloud/v1alpha1", "ManagedResource", metadata, {
      spec: { secretRefs: [{ name: "managedresource" }] },
    });
  }
}

async function makeExtensions(api: ApiServer, ttl: number): Promise<void> {
  const apiVersion = "extensions.gardener.cloud/v1alpha1";
  const secretRef = { name: "cloudprovider", namespace };
  const raw = { apiVersion: "core.gardener.cloud/v1beta1" };
  const cluster = {
    shoot: { ...raw, kind: "Shoot" },
    seed: { ...raw, kind: "Seed" },
    cloudProfile: { ...raw, kind: "CloudProfile" },
  };
  await post(
    api,
    `/apis/${apiVersion}/clusters`,
    apiVersion,
    "Cluster",
    { name: namespace },
    { spec: cluster },
  );
  const kinds = [
    ["infrastructures", "Infrastructure", "demo", { type: "local", region: "local", secretRef }],
    ["workers", "Worker", "demo", { type: "local", region: "local", secretRef, pools: [] }],
    [
      "dnsrecords",
      "DNSRecord",
      "demo-internal",
      record("local", "api.demo.internal.rehome.example", secretRef, ttl),
    ],
    [
      "dnsrecords",
      "DNSRecord",
      "demo-external",
      record("aws-route53", "api.demo.rehome.example", secretRef, ttl),
    ],
  ] as const;
  for (const [resource, kind, name, spec] of kinds) {
    const path = `/apis/${apiVersion}/namespaces/${namespace}/${resource}`;
    const metadata = { name, finalizers: [`extensions.gardener.cloud/${resource}`] };
    const annotations = { "gardener.cloud/operation": "wait-for-state" };
    await post(api, path, apiVersion, kind, { ...metadata, annotations }, { spec });
    const state = kind === "DNSRecord" ? {} : { state: { of: name, network: "net-1" } };
    await merge(api, `${path}/${name}/status`, {
      status: { ...state, lastOperation: succeeded, observedGeneration: 1 },
    });
    await merge(api, `${path}/${name}`, { metadata: { annotations: { "gardener.cloud/operation": null } } });
  }
}

async function makeMachines(api: ApiServer): Promise<void> {
  const apiVersion = "machine.sapcloud.io/v1alpha1";
  const path = (resource: string) => `/apis/${apiVersion}/namespaces/${namespace}/${resource}`;
  const finalizers = ["machine.sapcloud.io/machine-controller-manager"];
  const specClass = { class: { kind: "MachineClass", name: "pool" } };
  const template = { metadata: { labels: { pool: "1" } }, spec: specClass };
  const selector = { matchLabels: { pool: "1" } };
  await post(
    api,
    path("machineclasses"),
    apiVersion,
    "MachineClass",
    { name: "pool", finalizers },
    { providerSpec: { a: 1 } },
  );
  await post(
    api,
    path("machinedeployments"),
    apiVersion,
    "MachineDeployment",
    { name: "pool", finalizers },
    { spec: { replicas: 2, selector, template } },
  );
  await post(
    api,
    path("machinesets"),
    apiVersion,
    "MachineSet",
    { name: "pool-1", finalizers },
    { spec: { replicas: 2, selector, template } },
  );
  const set = await api.json<KubeObject>({ path: `${path("machinesets")}/pool-1` });
  for (const name of ["pool-1-a", "pool-1-b"]) {
    const ownerReferences = [
      { apiVersion, kind: "MachineSet", name: "pool-1", uid: set.metadata.uid, controller: true },
    ];
    const spec = { ...specClass, providerID: `local:///${name}` };
    await post(
      api,
      path("machines"),
      apiVersion,
      "Machine",
      { name, finalizers, ownerReferences, labels: { pool: "1" } },
      { spec },
    );
    await merge(api, `${path("machines")}/${name}/status`, {
      status: { currentStatus: { phase: "Running", lastUpdateTime: past } },
    });
  }
}

const secrets = [
  ["ca", { "ca.crt": "authority" }, true],
  ["ca-etcd", { "bundle.crt": "authority of etcd" }, true],
  ["ca-etcd-peer", { "bundle.crt": "authority of etcd's peers" }, true],
  ["kube-apiserver-etcd-encryption-key", { key: "key" }, true],
  ["etcd-client", { "tls.crt": "certificate", "tls.key": "key" }, false],
  ["vpn-seed-server-tlsauth", { "vpn.tlsauth": "shared" }, false],
  ["managedresource", { "data.yaml": "a: 1" }, false],
] as const;

const core = (resource: string) => `/api/v1/namespaces/${namespace}/${resource}`;
const apps = (resource: string) => `/apis/apps/v1/namespaces/${namespace}/${resource}`;
const druid = (resource: string) => `/apis/druid.gardener.cloud/v1alpha1/namespaces/${namespace}/${resource}`;

function etcd(name: string): object {
  const tls = {
    tlsCASecretRef: { name: "ca-etcd", dataKey: "bundle.crt" },
    serverTLSSecretRef: { name: "etcd-server" },
  };
  const store = {
    provider: "local",
    prefix: `${namespace}/${name}`,
    container: "bucket-a",
    secretRef: { name: "etcd-backup" },
  };
  return {
    replicas: 3,
    labels: { instance: name },
    selector: { matchLabels: { instance: name } },
    backup: name === "etcd-main" ? { store } : {},
    etcd: {
      clientUrlTls: { ...tls, clientTLSSecretRef: { name: "etcd-client" } },
      peerUrlTls: { ...tls, tlsCASecretRef: { name: "ca-etcd-peer", dataKey: "bundle.crt" } },
    },
  };
}

function record(type: string, name: string, secretRef: object, ttl: number): object {
  return { type, name, recordType: "A", values: ["127.20.0.10"], ttl, secretRef };
}

function deployment(app: string, replicas: number): object {
  const labels = { app };
  const spec = { containers: [{ name: app, image: app }], terminationGracePeriodSeconds: 1 };
  return { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } };
}

function encoded(data: Readonly<Record<string, string>>): object {
  return Object.fromEntries(
    Object.entries(data).map(([name, text]) => [name, Buffer.from(text).toString("base64")]),
  );
}

async function post(
  api: ApiServer,
  path: string,
  apiVersion: string,
  kind: string,
  metadata: object,
  rest: object = {},
): Promise<void> {
  await api.json({ method: "POST", path, body: { apiVersion, kind, metadata, ...rest } });
}
