import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client, Connection } from "@temporalio/client";
import { NativeConnection } from "@temporalio/worker";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listMembers } from "../../etcd/membership/converge.ts";
import type { Member } from "../../etcd/membership/types.ts";
import { list } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { ControlPlaneClients } from "../../testbed/control-plane/workload/clients.ts";
import { startRunningGardenerBed } from "../../testbed/gardener/bed.ts";
import type { RunningGardenerBed } from "../../testbed/gardener/bed.ts";
import { writeGardenerConfig } from "../../testbed/gardener/describe.ts";
import { demo } from "../../testbed/gardener/garden-objects.ts";
import { etcdNames, innerName } from "../../testbed/gardener/running/places.ts";
import type { EtcdName } from "../../testbed/gardener/running/places.ts";
import { Network } from "../../testbed/network/network.ts";
import type { Server } from "../../testbed/process.ts";
import { startTemporal } from "../../testbed/temporal.ts";
import { ensureSearchAttributes } from "../../workers/search-attributes.ts";
import type { controlPlaneMigration } from "../../workflows/control-plane-migration.ts";
import { TASK_QUEUE } from "../../workflows/engine/names.ts";
import { expectUnharmed } from "../e2e/control-plane/clients.ts";
import { abort, approve, failureOf, untilGate } from "../e2e/harness/moves.ts";
import { makeWorker } from "../e2e/harness/worker.ts";
import { newDir } from "./gardener-parts.ts";

const BUNDLE = fileURLToPath(new URL("../../workers/bundle.ts", import.meta.url));
const { namespace, project, shoot, seeds } = demo;
const BRISK = { soakMs: 2_000, switchTtlSeconds: 1, drainMs: 3_000 };
const whyNot = Network.whyNot();

const innerUrls = (name: EtcdName) => [0, 1, 2].map((ordinal) => `https://${innerName(name, ordinal)}:2380`);

/** Moves as a person starts them, with a worker of its own, real etcds and API servers, and druid's habits. */
describe.skipIf(whyNot)(`a Shoot in use moves${whyNot ? ` (${whyNot})` : ""}`, { timeout: 600_000 }, () => {
  let bed: RunningGardenerBed;
  let client: Client;
  let count = 0;
  const closing: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    const dir = newDir();
    closing.push(async () => await rm(dir, { recursive: true, force: true }));
    bed = await startRunningGardenerBed(dir);
    closing.push(async () => await bed.stop());
    const temporal = await startTemporal({ dir: bed.dir });
    closing.push(async () => await temporal.server.stop());
    const { address } = temporal;
    const native = await NativeConnection.connect({ address });
    await ensureSearchAttributes(native, temporal.namespace);
    await native.close();
    await promisify(execFile)(process.execPath, [BUNDLE]);
    const file = writeGardenerConfig(`${bed.dir}/rehome.yaml`, {
      kubeconfigs: bed.kubeconfigs,
      kubeconfig: bed.kubeconfig,
      dns: { servers: bed.bind.servers, zone: bed.bind.zone },
      temporal: { address, namespace: temporal.namespace },
    });
    const worker: Server = await (await makeWorker(file)).start();
    closing.push(async () => await worker.stop());
    const connection = await Connection.connect({ address });
    closing.push(async () => await connection.close());
    client = new Client({ connection, namespace: temporal.namespace });
  }, 600_000);
  afterAll(async () => {
    for (const close of closing.toReversed()) await close();
  });

  const start = async (more: object = {}) =>
    await client.workflow.start<typeof controlPlaneMigration>("controlPlaneMigration", {
      taskQueue: TASK_QUEUE,
      workflowId: `move-${++count}`,
      args: [{ controlPlane: shoot, to: seeds.destination, ...BRISK, ...more }],
    });

  const membersOf = async (name: EtcdName): Promise<readonly Member[]> => {
    using cluster = bed.programs.open(name);
    return (await listMembers(cluster)).members;
  };
  const expectAtSource = async () => {
    for (const name of etcdNames) {
      const members = await membersOf(name);
      expect(members.flatMap(({ peerUrls }) => peerUrls).sort()).toEqual(innerUrls(name));
      expect(members.some(({ learner }) => learner)).toBe(false);
    }
    const path = `/api/v1/namespaces/${namespace}`;
    expect(await bed.apis.destination.find({ path })).toBeUndefined();
    const { metadata } = await readShoot();
    expect(metadata.annotations?.["rehome.dev/move"]).toBeUndefined();
    expect(bed.driver.state.ordinaryMigrations).toEqual([]);
  };
  const readShoot = async () =>
    await bed.apis.garden.json<KubeObject & { spec: { seedName: string }; status: { seedName: string } }>({
      path: `/apis/core.gardener.cloud/v1beta1/namespaces/${project}/shoots/${shoot}`,
    });
  const podsAt = async (side: "source" | "destination") => {
    const { items } = await list<KubeObject>(bed.apis[side], {
      path: `/api/v1/namespaces/${namespace}/pods`,
    });
    return items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith("etcd-"));
  };

  test("a dry run says that etcd is asked later", async () => {
    const report = await (await start({ dryRun: true })).result();
    expect(report.etcds.map(({ unchecked }) => unchecked)).toEqual(
      etcdNames.map(() => expect.stringContaining("ExposeSourcePeers")),
    );
  });

  test("an etcd that is not fit is refused once it can be asked, and all is undone", async () => {
    let id: string;
    {
      using cluster = bed.programs.open("etcd-events");
      const { member } = await cluster.leader();
      ({ id } = await member.memberAdd(["https://127.0.0.99:2380"], true));
    }
    const { message } = await failureOf((await start()).result());
    expect(message).toMatch(/etcd-events of demo is not fit for a move.*is a learner/);
    using cluster = bed.programs.open("etcd-events");
    const { member } = await cluster.leader();
    await member.memberRemove(id);
    await expectAtSource();
  });

  test("a move that is aborted before its point of no return leaves everything as it was", async () => {
    const move = await start({ gates: ["CommitQuorum"] });
    await untilGate(move, "CommitQuorum");
    for (const name of etcdNames) {
      const members = await membersOf(name);
      expect(members.map(({ learner }) => learner)).toEqual([false, false, false, false, false]);
    }
    expect(await podsAt("destination")).toEqual(
      etcdNames.toSorted().flatMap((name) => [`${name}-0`, `${name}-1`]),
    );
    await abort(move);
    expect((await failureOf(move.result())).type).toBe("Aborted");
    await expectAtSource();
    expect(bed.driver.state.overlaps).toEqual([]);
  });

  test("it moves without a failed request, and etcd's members are where the Shoot is", async () => {
    const clients = await ControlPlaneClients.start({
      kubeconfig: bed.kubeconfig,
      dnsServers: bed.bind.servers,
      requestsPerSecond: 20,
      watches: 10,
    });
    const move = await start({ gates: ["CommitQuorum"] });
    await untilGate(move, "CommitQuorum");
    expect(await podsAt("destination")).not.toContain("etcd-main-2");
    await approve(move, "CommitQuorum");
    const report = await move.result();
    const result = await clients.conclude();
    expectUnharmed(result);
    expect(result.requests).toBeGreaterThan(500);
    expect(report).toMatchObject({ from: seeds.source, to: seeds.destination, verified: true });
    expect(report.committed?.proofs.map(({ members }) => members)).toEqual([6, 6]);
    for (const { version } of report.etcds) expect(version).toMatch(/^3\.6\./);
    for (const name of etcdNames) {
      const members = await membersOf(name);
      const names = [0, 1, 2].map((ordinal) => `${seeds.destination}-${name}-${ordinal}`);
      expect(members.map((member) => member.name).sort()).toEqual(names);
      expect(members.some(({ learner }) => learner)).toBe(false);
    }
    const { spec, status, metadata } = await readShoot();
    expect([spec.seedName, status.seedName]).toEqual([seeds.destination, seeds.destination]);
    expect(metadata.annotations?.["shoot.gardener.cloud/ignore"]).toBeUndefined();
    expect(await bed.apis.source.find({ path: `/api/v1/namespaces/${namespace}` })).toBeUndefined();
    const { overlaps, destroyed, ordinaryMigrations } = bed.driver.state;
    expect({ overlaps, destroyed, ordinaryMigrations }).toEqual({
      overlaps: [],
      destroyed: [],
      ordinaryMigrations: [],
    });
  });
});
