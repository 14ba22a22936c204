import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canOverrideUrls } from "../../hosting/gardener/druid.ts";
import { OperationFailedError } from "../../hosting/gardener/operations.ts";
import { ClaimedError } from "../../hosting/types.ts";
import type { Hosting, MemberAddress } from "../../hosting/types.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { list, merge } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { WaitError } from "../../kubernetes/wait.ts";
import type { GardenerBed } from "../../testbed/gardener/bed.ts";
import { demo } from "../../testbed/gardener/garden-objects.ts";
import { seedCrds } from "../../testbed/gardener/modules.ts";
import { controllers } from "../../testbed/gardener/seed-objects.ts";
import { bootstrapOf, etcds, hostingOf, limit, startBed, twice } from "./gardener-parts.ts";

const { namespace, project, shoot } = demo;
const extensions = `/apis/extensions.gardener.cloud/v1alpha1/namespaces/${namespace}`;
const machines = `/apis/machine.sapcloud.io/v1alpha1/namespaces/${namespace}/machines`;
const etcdPath = `/apis/druid.gardener.cloud/v1alpha1/namespaces/${namespace}/etcds/etcd-main`;
const shootPath = `/apis/core.gardener.cloud/v1beta1/namespaces/${project}/shoots/${shoot}`;

/** Writes to an object again and again, as controllers do, so that others' writes are refused as conflicts. */
async function disturb<T>(api: ApiServer, paths: readonly string[], step: () => Promise<T>): Promise<T> {
  const done = new AbortController();
  const noise = paths.map(async (path) => {
    for (let count = 0; !done.signal.aborted; count++) {
      await merge(api, path, { metadata: { annotations: { "example.com/noise": String(count) } } });
      await delay(5);
    }
  });
  try {
    return await step();
  } finally {
    done.abort();
    await Promise.all(noise);
  }
}

async function rotate({ apis }: GardenerBed, phase: "Preparing" | "Completed"): Promise<void> {
  const status = {
    credentials: { rotation: { certificateAuthorities: { phase } } },
    hibernated: phase === "Preparing",
  };
  await merge(apis.garden, `${shootPath}/status`, { status });
}

/** What is left of etcd-main at the destination. */
async function membersLeft({ apis }: GardenerBed, resource: string): Promise<string[]> {
  const path = `/api/v1/namespaces/${namespace}/${resource}`;
  const { items } = await list<KubeObject>(apis.destination, { path });
  return items.map(({ metadata }) => metadata.name).filter((name) => /etcd-main-\d$/.test(name));
}

/** One move that goes wrong in every way, and is undone. */
describe("a move of Gardener's control plane is undone", () => {
  let bed: GardenerBed;
  let hosting: Hosting;
  let hasty: Hosting;
  const source = new Map<string, readonly MemberAddress[]>();

  beforeAll(async () => {
    bed = await startBed();
    hosting = hostingOf(bed);
    hasty = hostingOf(bed, { deadlineMs: 1_000 });
  });
  afterAll(async () => await bed?.stop());

  test("druid of the pinned version cannot make a live move, and is refused", async () => {
    const crd = (await seedCrds()).find(({ metadata }) => metadata.name === "etcds.druid.gardener.cloud");
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    await bed.apis.core.json({ method: "POST", path, body: crd });
    expect(await canOverrideUrls(bed.apis.core, limit())).toBe(false);
    expect(await canOverrideUrls(bed.apis.source, limit())).toBe(true);
  });

  test("what Gardener forbids is refused beforehand, in words", async () => {
    const seedPath = "/apis/core.gardener.cloud/v1beta1/seeds/seed-b/status";
    const configPath = "/api/v1/namespaces/garden/configmaps/gardenlet-configmap-1";
    const config = async (heeds: boolean) =>
      await merge(bed.apis.destination, configPath, {
        data: { "config.yaml": `controllers:\n  shoot:\n    respectSyncPeriodOverwrite: ${heeds}\n` },
      });
    const versionOf = async (version: string) =>
      await merge(bed.apis.garden, seedPath, { status: { gardener: { version } } });
    await Promise.all([config(false), versionOf("v1.148.0"), rotate(bed, "Preparing")]);
    const { refusals } = await hosting.inspect(limit());
    expect(refusals.length).toBe(4);
    expect(refusals.join("\n")).toMatch(
      /hibernated[^]*rotation of certificateAuthorities[^]*gardenlets[^]*does not heed/,
    );
    await Promise.all([config(true), versionOf("v1.149.3"), rotate(bed, "Completed")]);
    expect((await hosting.inspect(limit())).refusals).toEqual([]);
  });

  test.each([
    [{ project: "dev" }, /has no Shoot dev\/demo: check controlPlanes\.demo\.shoot, and project/],
    [{ namespace: "shoot--dev--other" }, /technical id shoot--dev--demo.*set controlPlanes\.demo\.namespace/],
    [{ vpn: undefined }, /has the VPN server.*say in controlPlanes\.demo\.vpn/],
    [{ etcds: ["etcd-main", "etcd-other"] }, /has no Etcd shoot--dev--demo\/etcd-other/],
  ])("a configuration that does not fit the garden is refused with the fix: %j", async (more, words) => {
    expect((await hostingOf(bed, more).inspect(limit())).refusals.join("\n")).toMatch(words);
  });

  test("a garden that does not answer is refused by name", async () => {
    const garden = { kubeconfig: bed.kubeconfigs.garden, server: "https://127.0.0.1:1" };
    const { refusals } = await hostingOf(bed, { garden }).inspect(limit());
    expect(refusals.join()).toMatch(
      /^garden of demo at https:\/\/127\.0\.0\.1:1 does not tell.*check controlPlanes\.demo\.garden$/,
    );
  });

  test("a claim is taken among writers that disturb it", async () => {
    // As if an earlier move had brought the control plane here, and left its note.
    const annotations = { "rehome.dev/knows-machines": "destination move-0" };
    await merge(bed.apis.source, `/api/v1/namespaces/${namespace}`, { metadata: { annotations } });
    await disturb(
      bed.apis.garden,
      [shootPath],
      async () => await twice(async () => await hosting.claim(limit())),
    );
    await expect(hosting.requireClaim(limit())).resolves.toBeUndefined();
  });

  test("druid that is stuck is waited for until the deadline, and then again", async () => {
    const fault = "source/etcds/etcd-main/Reconcile";
    bed.driver.state.inject(fault, "stuck");
    for (const etcd of etcds) source.set(etcd, await hosting.exposePeers("source", etcd, limit()));
    const [members, others] = etcds.map((etcd) => source.get(etcd)!);
    await expect(hasty.advertisePeers("etcd-main", members!, limit())).rejects.toThrow(WaitError);
    const stop = new AbortController();
    const waiting = hosting.advertisePeers("etcd-main", members!, stop.signal);
    stop.abort();
    await expect(waiting).rejects.toThrow("aborted");
    bed.driver.state.heal(fault);
    bed.driver.state.inject("source/etcds/etcd-events/Reconcile", "error-once");
    await hosting.advertisePeers("etcd-main", members!, limit());
    await hosting.advertisePeers("etcd-events", others!, limit());
  });

  test("a namespace that somebody else made is not taken", async () => {
    const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
    await bed.apis.destination.json({ method: "POST", path: "/api/v1/namespaces", body });
    await expect(hosting.carryOver(limit())).rejects.toThrow(ClaimedError);
    await expect(hosting.clearDestination(limit())).rejects.toThrow(ClaimedError);
    await bed.apis.destination.json({ method: "DELETE", path: `/api/v1/namespaces/${namespace}` });
    await expect
      .poll(async () => await bed.apis.destination.find({ path: `/api/v1/namespaces/${namespace}` }), {
        timeout: 30_000,
      })
      .toBeUndefined();
    await hosting.carryOver(limit());
  });

  test("members join, and a name that druid would not give is refused", async () => {
    for (const etcd of etcds) {
      const addresses = await hosting.exposePeers("destination", etcd, limit());
      const wrong = { ...bootstrapOf(source.get(etcd)!, addresses, 0), name: "other-0" };
      await expect(hosting.startMember(etcd, 0, wrong, limit())).rejects.toThrow(
        "druid will name the member",
      );
      for (const ordinal of [0, 1, 2])
        await hosting.startMember(etcd, ordinal, bootstrapOf(source.get(etcd)!, addresses, ordinal), limit());
    }
    await hosting.startApiServers("destination", limit());
  });

  test("a controller that dies with its lease is given its whole time", async () => {
    bed.driver.state.keepLease.add("machine-controller-manager");
    const stopped = await hosting.fenceControllers("source", limit());
    const frozen = Object.fromEntries(stopped.map(({ name, leaseFrozenMs }) => [name, leaseFrozenMs]));
    expect(frozen).toEqual({
      "cluster-autoscaler": 0,
      "machine-controller-manager": 15_000,
      "gardener-resource-manager": 0,
    });
    bed.driver.state.keepLease.clear();
  });

  test("a hand-over that is undone half-way takes nothing from the source", async () => {
    const { apis, driver } = bed;
    const fault = "source/workers/demo/Migrate";
    driver.state.inject(fault, "failed");
    await expect(hosting.startControllers("destination", limit())).rejects.toThrow(OperationFailedError);
    driver.state.heal(fault);
    const { apiVersion, kind, spec } = await apis.source.json<KubeObject & { spec: object }>({
      path: `${machines}/pool-1-a`,
    });
    // As an attempt leaves it that dies while it copies.
    const metadata = { name: "pool-1-a", finalizers: ["machine.sapcloud.io/machine-controller-manager"] };
    const body = { apiVersion, kind, metadata, spec };
    await apis.destination.json({ method: "POST", path: machines, body });

    await hosting.fenceControllers("destination", limit());
    await twice(async () => await hosting.startControllers("source", limit()));
    const { items } = await list<KubeObject>(apis.source, { path: machines });
    expect(items.map((machine) => machine.metadata.name)).toEqual(["pool-1-a", "pool-1-b"]);
    for (const resource of ["infrastructures", "workers"]) {
      const object = await apis.source.json<{ status: object }>({ path: `${extensions}/${resource}/demo` });
      expect(object.status).toMatchObject({
        lastOperation: { type: "Restore", state: "Succeeded" },
        state: { of: "demo", network: "net-1" },
      });
    }
    expect(driver.state.destroyed).toEqual([]);
    await hosting.fenceControllers("source", limit());
  });

  test("extensions that fail are told, and tried again", async () => {
    const [left, taken] = ["source/infrastructures/demo/Migrate", "destination/infrastructures/demo/Restore"];
    const { state } = bed.driver;
    state.inject(left, "failed");
    await expect(hosting.startControllers("destination", limit())).rejects.toThrow(OperationFailedError);
    state.heal(left);
    state.inject(taken, "stuck");
    await expect(hasty.startControllers("destination", limit())).rejects.toThrow(WaitError);
    state.heal(taken);
    state.inject("source/workers/demo/Migrate", "error-once");
    const noisy = ["infrastructures/demo", "workers/demo"].map((name) => `${extensions}/${name}`);
    await disturb(bed.apis.source, noisy, async () => await hosting.startControllers("destination", limit()));
    await expect(hosting.startControllers("source", limit())).rejects.toThrow("must never run twice");
  });

  test("what the destination holds is not deleted", async () => {
    await expect(hosting.clearDestination(limit())).rejects.toThrow("is not migrated");
    const { items } = await list<KubeObject>(bed.apis.destination, { path: `${extensions}/workers` });
    expect(items.length).toBe(1);
    const kept = await list<KubeObject>(bed.apis.destination, { path: machines });
    expect(kept.items.map(({ metadata }) => metadata.name)).toEqual(["pool-1-a", "pool-1-b"]);
    expect(bed.driver.state.destroyed).toEqual([]);
  });

  test("controllers come back with what they have made meanwhile", async () => {
    await twice(async () => await hosting.fenceControllers("destination", limit()));
    const body = {
      apiVersion: "machine.sapcloud.io/v1alpha1",
      kind: "Machine",
      metadata: { name: "pool-1-c", finalizers: ["machine.sapcloud.io/machine-controller-manager"] },
      spec: { class: { kind: "MachineClass", name: "pool" }, providerID: "local:///pool-1-c" },
    };
    await bed.apis.destination.json({ method: "POST", path: machines, body });
    // A repetition of the hand-over does not bring back what the source knew.
    await hosting.startControllers("destination", limit());
    await hosting.fenceControllers("destination", limit());
    await twice(async () => await hosting.startControllers("source", limit()));
    const { items } = await list<KubeObject>(bed.apis.source, { path: machines });
    expect(items.map(({ metadata }) => metadata.name)).toEqual(["pool-1-a", "pool-1-b", "pool-1-c"]);
    for (const name of controllers) {
      const path = `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`;
      const workload = await bed.apis.source.json<KubeObject & { spec: { replicas: number } }>({ path });
      expect(workload.spec.replicas).toBe(1);
      expect(
        workload.metadata.annotations?.["dependency-watchdog.gardener.cloud/ignore-scaling"],
      ).toBeUndefined();
    }
    expect(bed.driver.state.overlaps).toEqual([]);
  });

  test("druid that a dead attempt has held off goes on with the members that are to stay", async () => {
    const held = {
      metadata: { annotations: { "druid.gardener.cloud/suspend-etcd-spec-reconcile": "true" } },
    };
    const api = bed.apis.destination;
    await merge(api, etcdPath, { ...held, spec: { replicas: 0 } });
    await hosting.stopMembers("destination", "etcd-main", 2, limit());
    const stopped = await api.json<KubeObject & { spec: { replicas: number } }>({ path: etcdPath });
    expect(stopped.spec.replicas).toBe(2);
    expect(stopped.metadata.annotations ?? {}).not.toHaveProperty(Object.keys(held.metadata.annotations));
    expect(await membersLeft(bed, "pods")).toEqual(["etcd-main-0", "etcd-main-1"]);

    await merge(api, etcdPath, held);
    const addresses = await hosting.exposePeers("destination", "etcd-main", limit());
    const bootstrap = bootstrapOf(source.get("etcd-main")!, addresses, 2);
    await hosting.startMember("etcd-main", 2, bootstrap, limit());
    expect(await membersLeft(bed, "pods")).toEqual(["etcd-main-0", "etcd-main-1", "etcd-main-2"]);
  });

  test("members stop from the last on, with their data, and druid does not start them again", async () => {
    await twice(async () => await hosting.stopMembers("destination", "etcd-main", 1, limit()));
    expect(await membersLeft(bed, "pods")).toEqual(["etcd-main-0"]);
    expect(await membersLeft(bed, "persistentvolumeclaims")).toEqual(["etcd-main-etcd-main-0"]);
    for (const etcd of etcds)
      await twice(async () => await hosting.stopMembers("destination", etcd, 0, limit()));
    expect(await membersLeft(bed, "pods")).toEqual([]);
    expect(await membersLeft(bed, "persistentvolumeclaims")).toEqual([]);
  });

  test("the destination is cleared, and the source is as it was", async () => {
    await hosting.stopApiServers("destination", limit());
    const other = hostingOf(bed, {}, { move: "move-2", epoch: 9 });
    await expect(other.clearDestination(limit())).rejects.toThrow(ClaimedError);
    await twice(async () => await hosting.clearDestination(limit()));
    for (const etcd of etcds) await twice(async () => await hosting.hidePeers(etcd, limit()));
    const etcd = await bed.apis.source.json<{ spec: { etcd: object } }>({ path: etcdPath });
    expect(etcd.spec.etcd).not.toHaveProperty("additionalAdvertisedURLs");
    const { items } = await list<KubeObject>(bed.apis.source, {
      path: `/api/v1/namespaces/${namespace}/services`,
    });
    expect(items.map(({ metadata }) => metadata.name)).toEqual(["kube-apiserver"]);
    const worker = await bed.apis.source.json<{ status: object }>({ path: `${extensions}/workers/demo` });
    expect(worker.status).toMatchObject({
      lastOperation: { type: "Restore", state: "Succeeded" },
      state: { of: "demo", network: "net-1" },
    });
    expect(bed.driver.state.destroyed).toEqual([]);
    expect((await hosting.inspect(limit())).refusals).toEqual([
      `Shoot ${project}/${shoot} is claimed by the move move-1: wait for its end; reset it where it was terminated`,
    ]);
    await hosting.release(limit());
    expect((await hosting.inspect(limit())).refusals).toEqual([]);
    expect(bed.driver.state.ordinaryMigrations).toEqual([]);
  });

  test("backups that fail are told; a Shoot bound but not adopted is never released", async () => {
    const third = hostingOf(bed, {}, { move: "move-3", epoch: 3 });
    await third.claim(limit());
    const { items } = await list<KubeObject>(bed.apis.garden, {
      path: `/apis/core.gardener.cloud/v1beta1/namespaces/${project}/backupentries`,
    });
    const fault = `garden/backupentries/${items[0]!.metadata.name}/Migrate`;
    bed.driver.state.inject(fault, "failed");
    await expect(third.finishBackups(limit())).rejects.toThrow(OperationFailedError);
    const found = await bed.apis.garden.json<{ spec: object }>({ path: shootPath });
    const body = { ...found, spec: { ...found.spec, seedName: demo.seeds.destination } };
    await bed.apis.garden.json({ method: "PUT", path: `${shootPath}/binding`, body });
    await expect(third.release(limit())).rejects.toThrow("it would be migrated with downtime");
    await third.adopt(limit());
    await third.release(limit());
    expect(bed.driver.state.ordinaryMigrations).toEqual([]);
  });
});
