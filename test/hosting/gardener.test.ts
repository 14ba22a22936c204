import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Hosting, MemberAddress } from "../../hosting/types.ts";
import { ClaimedError, RecordTakenError } from "../../hosting/types.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { list } from "../../kubernetes/objects.ts";
import type { GardenerBed } from "../../testbed/gardener/bed.ts";
import { makeReady } from "../../testbed/gardener/driver/nodes.ts";
import { demo } from "../../testbed/gardener/garden-objects.ts";
import { controllers } from "../../testbed/gardener/seed-objects.ts";
import { bootstrapOf, etcds, hostingOf, limit, recordChanges, startBed, twice } from "./gardener-parts.ts";

const { namespace, project, shoot } = demo;
const dnsPath = `/apis/extensions.gardener.cloud/v1alpha1/namespaces/${namespace}/dnsrecords`;
const resourcesPath = `/apis/resources.gardener.cloud/v1alpha1/namespaces/${namespace}/managedresources`;
const shootPath = `/apis/core.gardener.cloud/v1beta1/namespaces/${project}/shoots/${shoot}`;

interface Shoot extends KubeObject {
  readonly spec: { readonly seedName: string };
  readonly status: {
    readonly seedName: string;
    readonly liveMigration?: {
      readonly conditions: readonly { readonly type: string; readonly status: string }[];
    };
  };
}
interface Workload extends KubeObject {
  readonly spec: { readonly replicas: number };
}

function stepsOf({ status }: Shoot): Record<string, string> {
  return Object.fromEntries(
    (status.liveMigration?.conditions ?? []).map(({ type, status: value }) => [type, value]),
  );
}

/** One move from beginning to end; each step is made twice, and the next builds upon it. */
describe("a control plane of Gardener moves", () => {
  let bed: GardenerBed;
  let hosting: Hosting;
  let dnsChanges: ReturnType<typeof recordChanges<KubeObject>>;
  let workloads: ReturnType<typeof recordChanges<Workload>>;
  const source = new Map<string, readonly MemberAddress[]>();
  const destination = new Map<string, readonly MemberAddress[]>();

  beforeAll(async () => {
    bed = await startBed();
    hosting = hostingOf(bed);
    const seeds = [bed.apis.source, bed.apis.destination];
    dnsChanges = recordChanges(seeds, dnsPath);
    workloads = recordChanges(seeds, `/apis/apps/v1/namespaces/${namespace}/deployments`);
  });
  afterAll(async () => {
    await dnsChanges?.stop();
    await workloads?.stop();
    await bed?.stop();
  });

  const readShoot = async () => await bed.apis.garden.json<Shoot>({ path: shootPath });

  test("nothing forbids the move", async () => {
    const [first, second] = await twice(async () => await hosting.inspect(limit()));
    expect(first.refusals).toEqual([]);
    expect(first.etcds.map(({ name, members }) => [name, members])).toEqual(etcds.map((name) => [name, 3]));
    expect(second).toEqual(first);
  });

  test("one move claims the Shoot, keeps gardenlets away, and nobody else gets it", async () => {
    await twice(async () => await hosting.claim(limit()));
    const other = hostingOf(bed, {}, { move: "move-2", epoch: 9 });
    await expect(other.claim(limit())).rejects.toThrow(ClaimedError);
    await hosting.requireClaim(limit());
    await expect(other.requireClaim(limit())).rejects.toThrow(ClaimedError);
    const { annotations = {} } = (await readShoot()).metadata;
    expect(annotations["shoot.gardener.cloud/ignore"]).toBe("true");
    expect(annotations["migration.gardener.cloud/live-migrate"]).toBe("true");
  });

  test("the source's members advertise addresses of their own alone", async () => {
    for (const etcd of etcds) {
      expect(await hosting.innerPeerUrls(etcd, limit())).toMatchObject({
        [`${etcd}-0`]: `https://${etcd}-0.${etcd}-peer.${namespace}.svc:2380`,
      });
      expect(await hosting.clientUrls("source", etcd, limit())).toEqual([]);
      const [first, second] = await twice(async () => await hosting.exposePeers("source", etcd, limit()));
      expect(second).toEqual(first);
      expect(await hosting.clientUrls("source", etcd, limit())).toEqual(
        first.map(({ clientUrl }) => clientUrl),
      );
      expect(await hosting.mayHaveOuterPeers(etcd, limit())).toBe(false);
      await twice(async () => await hosting.advertisePeers(etcd, first, limit()));
      expect(await hosting.mayHaveOuterPeers(etcd, limit())).toBe(true);
      source.set(etcd, first);
    }
    const all = [...source.values()].flat().map(({ peerUrl }) => peerUrl);
    expect(new Set(all).size).toBe(6);
    expect(stepsOf(await readShoot())).toEqual({ SourceEtcdPreparedForPeerJoin: "True" });
  });

  test("what the control plane is made of is carried over, and runs nothing", async () => {
    const [first, second] = await twice(async () => await hosting.carryOver(limit()));
    expect(second).toEqual(first);
    expect(first.secrets).toBe(7);
    const { items } = await list<Workload>(bed.apis.destination, {
      path: `/apis/apps/v1/namespaces/${namespace}/deployments`,
    });
    expect(items.length).toBe(6);
    expect(items.every(({ spec }) => spec.replicas === 0)).toBe(true);
    const state = await bed.apis.garden.json<{ spec: { gardener: { name: string }[] } }>({
      path: `/apis/core.gardener.cloud/v1beta1/namespaces/${project}/shootstates/${shoot}`,
    });
    expect(state.spec.gardener.map(({ name }) => name).sort()).toEqual([
      "ca",
      "ca-etcd",
      "ca-etcd-peer",
      "kube-apiserver-etcd-encryption-key",
    ]);
  });

  test("members join one by one, the third stays a learner", async () => {
    bed.driver.state.unready.add("etcd-main-2");
    for (const etcd of etcds) {
      const addresses = await hosting.exposePeers("destination", etcd, limit());
      destination.set(etcd, addresses);
      for (const ordinal of [0, 1, 2]) {
        const bootstrap = bootstrapOf(source.get(etcd)!, addresses, ordinal);
        await twice(async () => await hosting.startMember(etcd, ordinal, bootstrap, limit()));
        const { items } = await list<KubeObject>(bed.apis.destination, {
          path: `/api/v1/namespaces/${namespace}/pods`,
        });
        expect(items.filter(({ metadata }) => metadata.name.startsWith(`${etcd}-`)).length).toBe(ordinal + 1);
        if (ordinal < 2) await hosting.awaitMemberReady("destination", etcd, ordinal, limit());
      }
    }
    const learner = hosting.awaitMemberReady("destination", "etcd-main", 2, limit());
    const first = await Promise.race([
      learner.then(() => "ready"),
      hosting.inspect(limit()).then(() => "waits"),
    ]);
    expect(first).toBe("waits");
    await makeReady(bed.apis.destination, namespace, "etcd-main-2", bed.driver.state);
    await learner;
    const etcd = await bed.apis.destination.json<{
      spec: { memberNamePrefix: string; etcd: { bootstrapWithExistingCluster: { members: object[] } } };
    }>({
      path: `/apis/druid.gardener.cloud/v1alpha1/namespaces/${namespace}/etcds/etcd-main`,
    });
    expect(etcd.spec.memberNamePrefix).toBe(demo.seeds.destination);
    expect(etcd.spec.etcd.bootstrapWithExistingCluster.members).toEqual(
      source.get("etcd-main")!.map(({ pod, peerUrl }) => ({ name: pod, peerUrls: [peerUrl] })),
    );
  });

  test("API servers and the VPN's server start at the destination", async () => {
    const [first, second] = await twice(async () => await hosting.startApiServers("destination", limit()));
    expect(second).toEqual(first);
    expect(first.values).toEqual(["127.21.0.10"]);
    const [vpn] = await twice(async () => await hosting.startVpnServer("destination", limit()));
    expect(vpn).toBe("127.21.0.10:8132");
  });

  test("DNS records are overwritten, unless somebody else was faster", async () => {
    const { values } = await hosting.apiServerAddress("destination", limit());
    const old = (await hosting.apiServerAddress("source", limit())).values;
    const { dns } = hosting;
    expect(await dns.inspect(old, limit())).toEqual({ ttlSeconds: 120, refusals: [] });
    await twice(async () => await dns.replace(old, { values: old, ttlSeconds: 30 }, limit()));
    expect(await dns.inspect(old, limit())).toEqual({ ttlSeconds: 30, refusals: [] });
    await expect(dns.replace(["127.9.9.9"], { values, ttlSeconds: 30 }, limit())).rejects.toThrow(
      RecordTakenError,
    );
    await twice(async () => await dns.replace(old, { values, ttlSeconds: 30 }, limit()));
    expect([...bed.driver.zone.values()]).toEqual([values, values]);
    expect(await dns.inspect(values, limit())).toEqual({ ttlSeconds: 30, refusals: [] });
    expect((await dns.inspect(old, limit())).refusals.length).toBe(2);
  });

  test("controllers are handed over, and no two of a kind ever run", async () => {
    await expect(hosting.startControllers("destination", limit())).rejects.toThrow("must never run twice");
    const [first] = await twice(async () => await hosting.fenceControllers("source", limit()));
    expect(first.map(({ name }) => name)).toEqual(controllers);
    await twice(async () => await hosting.startControllers("destination", limit()));
    const { done, overlaps } = bed.driver.state;
    expect(overlaps).toEqual([]);
    for (const resource of ["infrastructures", "workers"]) {
      const [left, taken] = [`source/${resource}/demo/Migrate`, `destination/${resource}/demo/Restore`];
      expect(done.filter((key) => key === left || key === taken)).toEqual([left, taken]);
    }
    const restored = await bed.apis.destination.json<{ status: { state: object } }>({
      path: `/apis/extensions.gardener.cloud/v1alpha1/namespaces/${namespace}/workers/demo`,
    });
    expect(restored.status.state).toEqual({ of: "demo", network: "net-1" });
    const machines = await list<KubeObject & { spec: { providerID: string }; status: object }>(
      bed.apis.destination,
      {
        path: `/apis/machine.sapcloud.io/v1alpha1/namespaces/${namespace}/machines`,
      },
    );
    expect(machines.items.map(({ spec }) => spec.providerID)).toEqual([
      "local:///pool-1-a",
      "local:///pool-1-b",
    ]);
    expect(machines.items[0]?.status).toMatchObject({ currentStatus: { phase: "Running" } });
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/kube-controller-manager`;
    for (const api of [bed.apis.source, bed.apis.destination])
      expect((await api.json<Workload>({ path })).spec.replicas).toBe(2);
    const replicas = new Map<string, number>();
    for (const { seed, object } of workloads.seen) {
      const { name } = object.metadata;
      replicas.set(`${seed}/${name}`, object.spec.replicas);
      const both = ["source", "destination"].every((known) => (replicas.get(`${known}/${name}`) ?? 0) > 0);
      expect(both && controllers.includes(name), `${name} was asked for at both seeds`).toBe(false);
    }
  });

  test("backups and the Shoot itself become the destination's", async () => {
    await hosting.stopApiServers("source", limit());
    const fault = "destination/etcdopstasks/etcd-main-move-1/Snapshot";
    bed.driver.state.inject(fault, "failed");
    // The task that has failed stays, and is not taken for the next one.
    await twice(async () => {
      await expect(hosting.finishBackups(limit())).rejects.toThrow(/etcd-main-move-1 is Failed/);
    });
    bed.driver.state.heal(fault);
    await twice(async () => await hosting.finishBackups(limit()));
    await twice(async () => await hosting.adopt(limit()));
    const { spec, status } = await readShoot();
    expect([spec.seedName, status.seedName]).toEqual([demo.seeds.destination, demo.seeds.destination]);
    const tasks = bed.driver.state.done.filter((key) => key.includes("etcdopstasks"));
    expect(tasks).toEqual([fault, fault, fault]);
  });

  test("the source is cleared, and nothing that it stood for is touched", async () => {
    const resources = recordChanges<KubeObject & { spec: { keepObjects?: boolean } }>(
      [bed.apis.source],
      resourcesPath,
    );
    try {
      for (const etcd of etcds)
        await twice(async () => await hosting.stopMembers("source", etcd, 0, limit()));
      await expect(hosting.clearSource(limit())).rejects.toThrow("hand it over first");
      await twice(async () => await hosting.dns.handOver(limit()));
      await twice(async () => await hosting.clearSource(limit()));
    } finally {
      await resources.stop();
    }
    const deleted = resources.seen.filter(({ type }) => type === "DELETED");
    expect(deleted.length).toBe(2);
    expect(deleted.every(({ object }) => object.spec.keepObjects === true)).toBe(true);
    const firstDeletion = resources.seen.findIndex(
      ({ object }) => object.metadata.deletionTimestamp !== undefined,
    );
    const keptBefore = resources.seen
      .slice(0, firstDeletion)
      .filter(({ object }) => object.spec.keepObjects === true);
    expect(new Set(keptBefore.map(({ object }) => object.metadata.name)).size).toBe(2);
    expect(await bed.apis.source.find({ path: `/api/v1/namespaces/${namespace}` })).toBeUndefined();
    expect(bed.driver.state.destroyed).toEqual([]);
  });

  test("no DNS record was ever without an owner", async () => {
    const owners = new Map<string, Set<string>>();
    for (const { seed, type, object } of dnsChanges.seen) {
      const { name } = object.metadata;
      const known = owners.get(name) ?? new Set<string>();
      owners.set(name, known);
      if (type === "DELETED") known.delete(seed);
      else known.add(seed);
      expect(known.size, `${name} after ${type} at ${seed}`).toBeGreaterThan(0);
    }
    expect([...owners.values()].map((known) => [...known])).toEqual([["destination"], ["destination"]]);
    const { values } = await hosting.apiServerAddress("destination", limit());
    expect([...bed.driver.zone.values()]).toEqual([values, values]);
  });

  test("the Shoot is given back to gardenlets", async () => {
    const before = generationOf(await readShoot());
    await twice(async () => await hosting.release(limit()));
    const found = await readShoot();
    // By it they learn that there is something to do.
    expect(generationOf(found)).toBe(before + 1);
    expect(found.metadata.annotations?.["shoot.gardener.cloud/ignore"]).toBeUndefined();
    expect(stepsOf(found)).toMatchObject({ MigrationCompleted: "True", SourceSeedCleanup: "True" });
    expect(bed.driver.state.ordinaryMigrations).toEqual([]);
  });
});

function generationOf({ metadata }: KubeObject): number {
  return (metadata as { generation?: number }).generation ?? 0;
}
