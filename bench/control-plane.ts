import { rm } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { ControlPlaneReport } from "../activities/control-plane/types.ts";
import { startMove } from "../cli/commands/start.ts";
import { operator, targetFrom, withClient } from "../cli/connection.ts";
import { inputFrom } from "../cli/input.ts";
import { parseServer } from "../dns/names.ts";
import { query } from "../dns/query.ts";
import { removeObject } from "../kubernetes/objects.ts";
import { startControlPlaneTestbed } from "../testbed/control-plane.ts";
import { apiServerName, controlPlane, seedNamespace } from "../testbed/control-plane/names.ts";
import type { ControlPlaneTestbed } from "../testbed/control-plane/testbed.ts";
import { ControlPlaneClients } from "../testbed/control-plane/workload/clients.ts";
import type { ControlPlaneClientsResult } from "../testbed/control-plane/workload/conclusion.ts";
import { startWorker } from "../testbed/demo/worker.ts";
import type { Bench } from "./bench.ts";
import type { Sample } from "./results.ts";

const pace = { soakMs: 10_000, drainMs: 10_000 };
const aroundMs = 5_000;

interface Scene {
  readonly testbed: ControlPlaneTestbed;
  readonly client: Client;
  readonly clients: ControlPlaneClients;
}

const requestsPerSecond = 100;

/**
 * What clients of a control plane notice when it moves: with rehome, and when the source's API servers are deleted as
 * soon as the DNS record has changed, as in the experiments that Gardener has published.
 */
export const controlPlaneMove: Bench = {
  about: "requests that fail while a hosted control plane moves",
  runs: 3,
  sizes: [requestsPerSecond],
  round: async ({ dir }) => {
    const [ours, theirs] = [
      await measure(`${dir}/rehome`, move),
      await measure(`${dir}/at-once`, deleteAtOnce),
    ];
    return [...samplesOf("rehome", ours), ...samplesOf("source deleted at once", theirs)];
  },
};

interface Outcome {
  readonly clients: ControlPlaneClientsResult;
  readonly totalMs?: number;
}

async function measure(
  dir: string,
  run: (scene: Scene) => Promise<Pick<Outcome, "totalMs">>,
): Promise<Outcome> {
  const testbed = await startControlPlaneTestbed({ dir });
  try {
    const worker = await startWorker(testbed.configFile, dir);
    const clients = await ControlPlaneClients.start({
      kubeconfig: testbed.shoot.kubeconfig,
      dnsServers: testbed.dns.servers,
    });
    await delay(aroundMs);
    const found = await withClient(await targetFrom({ config: testbed.configFile }), async (client) => {
      return await run({ testbed, client, clients });
    });
    await delay(aroundMs);
    const result = await clients.conclude();
    await worker.stop();
    return { ...found, clients: result };
  } finally {
    await testbed.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

async function start({ testbed, client }: Scene, more: object): Promise<string> {
  const hints = { program: "rehome", connection: ["--config", testbed.configFile], by: operator() };
  const input = JSON.stringify({ ...pace, ...more });
  const checked = inputFrom("controlPlaneMigration", { controlPlane, to: "seed-b", input });
  return (await startMove(client, { checked, hints })).workflowId;
}

async function move(scene: Scene): Promise<Pick<Outcome, "totalMs">> {
  const workflowId = await start(scene, {});
  const report = (await scene.client.workflow.getHandle(workflowId).result()) as ControlPlaneReport;
  if (!report.verified) throw new Error("the move was not verified");
  return { totalMs: report.phases.reduce((sum, { ms }) => sum + ms, 0) };
}

/** Up to the switch as rehome does it, then the source's API servers end without grace. */
async function deleteAtOnce(scene: Scene): Promise<Pick<Outcome, "totalMs">> {
  const { testbed } = scene;
  await start(scene, { gates: ["Soak"] });
  await untilSwitched(testbed);
  const { api } = testbed.seeds["seed-a"];
  const path = `/apis/apps/v1/namespaces/${seedNamespace}/deployments/kube-apiserver`;
  await api.json({ method: "PATCH", path, body: { spec: { replicas: 0 } } });
  const pods = `/api/v1/namespaces/${seedNamespace}/pods`;
  const { items } = await api.json<{ items: { metadata: { name: string } }[] }>({ path: pods });
  const servers = items.filter(({ metadata }) => metadata.name.startsWith("kube-apiserver-"));
  await Promise.all(
    servers.map(async ({ metadata }) => {
      await removeObject(api, `${pods}/${metadata.name}`, { gracePeriodSeconds: 0 });
    }),
  );
  // Past the TTL and all retries.
  await delay(30_000);
  return {};
}

async function untilSwitched({ dns, addresses }: ControlPlaneTestbed): Promise<void> {
  const [server] = dns.servers.map(parseServer);
  for (;;) {
    const { values } = await query(server!, apiServerName, "A");
    if (!values.includes(addresses.apiServer)) return;
    await delay(50);
  }
}

function samplesOf(system: string, { clients, totalMs }: Outcome): Sample[] {
  const { http2, http1 } = clients.protocols;
  const sample = (metric: string, unit: string, value: number): Sample => ({
    system,
    size: requestsPerSecond,
    metric,
    unit,
    value,
  });
  return [
    sample("requests", "requests", clients.requests),
    sample("failed requests, HTTP/2", "requests", http2.failedRequests),
    sample("failed requests, HTTP/1.1", "requests", http1.failedRequests),
    sample("longest gap", "ms", clients.longestGapMs),
    sample("events missed", "events", clients.missedEvents),
    sample("writes lost", "writes", clients.lostWrites),
    ...(totalMs === undefined ? [] : [sample("the whole move", "ms", totalMs)]),
  ];
}
