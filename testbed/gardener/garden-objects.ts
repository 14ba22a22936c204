import type { ApiServer } from "../../kubernetes/api-server.ts";
import { awaitObject, merge } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";

const group = "/apis/core.gardener.cloud/v1beta1";
const apiVersion = "core.gardener.cloud/v1beta1";
export const demo = {
  shoot: "demo",
  project: "garden-dev",
  namespace: "shoot--dev--demo",
  seeds: { source: "seed-a", destination: "seed-b" },
} as const;
const version = "v1.149.3";
const past = "2026-01-01T00:00:00Z";

/** Makes a garden with one project, two seeds and one highly available Shoot that runs at the first of them. */
export async function makeGarden(core: ApiServer, garden: ApiServer): Promise<void> {
  const labels = { "gardener.cloud/role": "project", "project.gardener.cloud/name": "dev" };
  for (const metadata of [{ name: "garden" }, { name: demo.project, labels }])
    await core.json({
      method: "POST",
      path: "/api/v1/namespaces",
      body: { apiVersion: "v1", kind: "Namespace", metadata },
    });
  const make = async (resource: string, body: object) =>
    await garden.json<KubeObject>({
      method: "POST",
      path: `${group}/${resource}`,
      body: { apiVersion, ...body },
    });
  const owner = { apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "admin" };
  await make("projects", {
    kind: "Project",
    metadata: { name: "dev" },
    spec: { namespace: demo.project, owner },
  });
  await merge(garden, `${group}/projects/dev/status`, { status: { phase: "Ready" } });
  await make("cloudprofiles", cloudProfile);
  for (const name of Object.values(demo.seeds)) {
    const { metadata } = await make("seeds", seed(name));
    await merge(garden, `${group}/seeds/${name}/status`, { status: seedStatus });
    await make("backupbuckets", bucket(metadata.uid!, name));
  }
  // Admission reads from caches of its own, which lag behind.
  await make(`namespaces/${demo.project}/shoots`, shoot);
  await bindAtFirst(garden);
  await makeBackupEntry(garden);
}

/** The Shoot's BackupEntry, as the first seed's gardenlet has made it. */
async function makeBackupEntry(garden: ApiServer): Promise<void> {
  const source = await garden.json<KubeObject>({ path: `${group}/seeds/${demo.seeds.source}` });
  const name = `${demo.namespace}--${uid}`;
  const path = `${group}/namespaces/${demo.project}/backupentries`;
  const spec = { bucketName: source.metadata.uid, seedName: demo.seeds.source };
  await garden.json({
    method: "POST",
    path,
    body: { apiVersion, kind: "BackupEntry", metadata: { name }, spec },
  });
  await merge(garden, `${path}/${name}/status`, {
    status: { seedName: demo.seeds.source, lastOperation: succeeded, observedGeneration: 1 },
  });
}

async function bindAtFirst(garden: ApiServer): Promise<void> {
  const path = `${group}/namespaces/${demo.project}/shoots`;
  const found = await garden.json<KubeObject & { spec: object }>({ path: `${path}/${demo.shoot}` });
  const body = { ...found, spec: { ...found.spec, seedName: demo.seeds.source } };
  await garden.json({ method: "PUT", path: `${path}/${demo.shoot}/binding`, body });
  const status = {
    seedName: demo.seeds.source,
    technicalID: demo.namespace,
    uid,
    hibernated: false,
    gardener: { id: "gardenlet", name: "gardenlet", version },
    lastOperation: succeeded,
  };
  await merge(garden, `${path}/${demo.shoot}/status`, { status });
  const bound = (object: (KubeObject & { status?: { seedName?: string } }) | undefined) =>
    object?.status?.seedName === demo.seeds.source || "not yet";
  const signal = AbortSignal.timeout(10_000);
  await awaitObject(garden, { path, name: demo.shoot }, bound, {
    what: "the Shoot runs",
    deadlineMs: 10_000,
    signal,
  });
}

const uid = "6a9f5a5e-6d1c-4a6e-9a3b-5c1f0d3b7c11";
const succeeded = {
  type: "Reconcile",
  state: "Succeeded",
  progress: 100,
  description: "done",
  lastUpdateTime: past,
};
const zones = ["0", "1", "2"];
const secret = (name: string) => ({ apiVersion: "v1", kind: "Secret", name, namespace: "garden" });

const cloudProfile = {
  kind: "CloudProfile",
  metadata: { name: "local" },
  spec: {
    type: "local",
    kubernetes: { versions: [{ version: "1.34.1" }] },
    machineImages: [
      {
        name: "local",
        versions: [{ version: "1.0.0", cri: [{ name: "containerd" }], architectures: ["amd64"] }],
      },
    ],
    machineTypes: [{ name: "local", cpu: "2", gpu: "0", memory: "4Gi", architecture: "amd64" }],
    regions: [{ name: "local", zones: zones.map((name) => ({ name })) }],
  },
};

const seed = (name: string) => ({
  kind: "Seed",
  metadata: { name },
  spec: {
    provider: { type: "local", region: "local", zones },
    backup: { provider: "local", credentialsRef: secret("backup") },
    dns: {
      provider: { type: "local", credentialsRef: secret("dns") },
      internal: { type: "local", domain: "internal.rehome.example", credentialsRef: secret("dns") },
    },
    ingress: { domain: `ingress.${name}.rehome.example`, controller: { kind: "nginx" } },
    networks: { nodes: "10.1.0.0/16", pods: "10.2.0.0/16", services: "10.3.0.0/16" },
  },
});

const times = { lastTransitionTime: past, lastUpdateTime: past };
const seedStatus = {
  gardener: { id: "gardenlet", name: "gardenlet", version },
  kubernetesVersion: "v1.36.3",
  conditions: [{ type: "GardenletReady", status: "True", reason: "Ready", message: "ready", ...times }],
};

const bucket = (name: string, seedName: string) => ({
  kind: "BackupBucket",
  metadata: { name },
  spec: { provider: { type: "local", region: "local" }, credentialsRef: secret("backup"), seedName },
});

const shoot = {
  kind: "Shoot",
  metadata: { name: demo.shoot, namespace: demo.project },
  spec: {
    cloudProfile: { name: "local", kind: "CloudProfile" },
    region: "local",
    // Without workers, so that nothing is asked of it that has no part in a move; the seed's machines are there.
    provider: { type: "local" },
    networking: { services: "10.4.0.0/16" },
    kubernetes: { version: "1.34.1" },
    controlPlane: { highAvailability: { failureTolerance: { type: "node" } } },
  },
};
