import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { ControlPlaneReport } from "../../activities/control-plane/types.ts";
import type { V1Pod as Pod, V1Service as Service } from "@kubernetes/client-node";
import { startMove } from "../../cli/commands/start.ts";
import { operator, targetFrom, withClient } from "../../cli/connection.ts";
import { inputFrom } from "../../cli/input.ts";
import type { Hints } from "../../cli/view/hints.ts";
import { failureLines } from "../../cli/view/report.ts";
import type { Sight } from "../../cli/view/sight.ts";
import { findProgram } from "../programs/find.ts";
import { startControlPlaneTestbed } from "../control-plane.ts";
import type { ControlPlaneTestbed } from "../control-plane.ts";
import { apiServerName, controlPlane, seedNamespace, systemNamespace } from "../control-plane/names.ts";
import { ControlPlaneClients } from "../control-plane/workload/clients.ts";
import { TunnelPings } from "../control-plane/workload/tunnel-pings.ts";
import type { VpnSide } from "../control-plane/workload/vpn-prober.ts";
import { makeControlPlaneReport } from "./control-plane-report.ts";
import type { ControlPlaneDemoReport } from "./control-plane-report.ts";
import { controlPlaneLines } from "./control-plane-text.ts";
import { observedAfterMs, observedBeforeMs } from "./demo.ts";
import type { Demo, DemoOptions } from "./demo.ts";
import { watchToTheEnd } from "./move.ts";
import { Steps } from "./steps.ts";
import { startWorker } from "./worker.ts";

const pingedPod = { namespace: systemNamespace, pod: "echo", port: 8080 };
/** Shorter than one would choose in production, where nobody watches. */
const pace = { soakMs: 10_000, drainMs: 10_000 };

/**
 * Brings two seeds, DNS, a VPN, Temporal and a worker up, with a control plane
 * in the first seed; keeps clients at work in it, moves it, and judges. Leaves
 * the servers running. Needs Linux and root.
 * @throws Error when a server does not come up, or when the move has failed
 */
export async function demonstrateControlPlane(options: DemoOptions): Promise<Demo> {
  const { dir, requestsPerSecond } = options;
  const http1RequestsPerSecond = requestsPerSecond / 5;
  const steps = new Steps(options.out, options.signal);
  try {
    const testbed = await steps.step(
      "two seeds, a control plane in the first, DNS, VPN, Temporal",
      async (tell) => {
        return await startControlPlaneTestbed({ dir, onProgress: tell });
      },
    );
    const { configFile, shoot } = testbed;
    await steps.step("a worker", async () => await startWorker(configFile, dir));
    const clients = await steps.step(
      `clients, ${requestsPerSecond} requests a second over HTTP/2, ${http1RequestsPerSecond} over HTTP/1.1, 50 watches`,
      async () => {
        const started = await ControlPlaneClients.start({
          kubeconfig: shoot.kubeconfig,
          dnsServers: testbed.dns.servers,
          requestsPerSecond,
          http1RequestsPerSecond,
          pingedPod,
        });
        await started.setVpnSides([vpnSide("seed-a", testbed.addresses.apiServer)]);
        return started;
      },
    );
    const pings = new TunnelPings(await addressOfPingedPod(testbed), dir);
    await pings.setSeeds([testbed.seeds["seed-a"]]);
    await delay(observedBeforeMs);
    steps.close();
    const report = await withClient(await targetFrom({ config: configFile }), async (client) => {
      return await moveAndJudge({ ...options, testbed, clients, pings, client });
    });
    const another = `npm run rehome -- start controlPlaneMigration --config ${configFile} --control-plane ${controlPlane} --to seed-a --input '${JSON.stringify(pace)}'`;
    return {
      report,
      lines: controlPlaneLines(report),
      hints: {
        "Temporal's CLI": `${await findProgram("temporal")} workflow list --address ${testbed.temporal.address}`,
        kubeconfig: `${shoot.kubeconfig} (only ${testbed.dns.servers.join(" and ")} know ${apiServerName})`,
        "another move": another,
      },
      servers: testbed.servers,
      stop: async () => await testbed.stop(),
    };
  } finally {
    steps.close();
  }
}

interface Scene extends DemoOptions {
  readonly testbed: ControlPlaneTestbed;
  readonly clients: ControlPlaneClients;
  readonly pings: TunnelPings;
  readonly client: Client;
}

async function moveAndJudge(scene: Scene): Promise<ControlPlaneDemoReport> {
  const { testbed, clients, pings, client, out, signal } = scene;
  const hints: Hints = {
    program: "npm run rehome --",
    connection: ["--config", testbed.configFile],
    by: operator(),
  };
  const input = JSON.stringify(pace);
  const checked = inputFrom("controlPlaneMigration", { controlPlane, to: "seed-b", input });
  const { workflowId } = await startMove(client, { checked, hints });
  const { uiUrl, namespace } = testbed.temporal;
  const page = `${uiUrl}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`;
  out.write(`\nThe same move in Temporal's UI: ${page}\n\n`);
  const onSight = pingWhoServes(scene);
  const outcome = await watchToTheEnd({ client, workflowId, clients, hints, out, signal, onSight });
  if (outcome.status !== "completed") throw new Error(failureLines(outcome).join("\n"));
  const move = outcome.result as ControlPlaneReport;
  const { historyLength } = await client.workflow.getHandle(workflowId).describe();
  await delay(observedAfterMs);
  await pings.setSeeds([]);
  const result = await clients.conclude();
  return makeControlPlaneReport({
    workflowId,
    uiUrl: page,
    historyEvents: historyLength,
    move,
    clients: result,
    tunnels: pings.results,
    doubled: testbed.fenceJournal().filter(({ event }) => event === "refused").length,
  });
}

/** The destination's tunnel is pinged from when the move says that it stands, the source's until the clients leave it. */
function pingWhoServes(scene: Scene): (sight: Sight) => void {
  let pinged = "seed-a";
  return ({ state }) => {
    const isDone = (name: string) =>
      state?.steps.some((step) => step.name === name && step.state === "done") ?? false;
    const isUnder = (name: string) => state?.phase === name || isDone(name);
    const sides = isUnder("HandOverControllers") ? "seed-b" : isDone("BridgeVPN") ? "both" : "seed-a";
    if (sides === pinged) return;
    pinged = sides;
    void setSides(scene, sides).catch((error: unknown) => console.error(error));
  };
}

async function setSides({ testbed, clients, pings }: Scene, sides: string): Promise<void> {
  const { seeds, addresses } = testbed;
  const destination = vpnSide("seed-b", await addressIn(testbed, "seed-b"));
  const source = vpnSide("seed-a", addresses.apiServer);
  await Promise.all([
    clients.setVpnSides(sides === "both" ? [source, destination] : [destination]),
    pings.setSeeds(sides === "both" ? [seeds["seed-a"], seeds["seed-b"]] : [seeds["seed-b"]]),
  ]);
}

async function addressOfPingedPod(testbed: ControlPlaneTestbed): Promise<string> {
  const { namespace, pod, port } = pingedPod;
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}`;
  const { status } = await testbed.apiAt(testbed.addresses.apiServer).json<Pod>({ path });
  return `${status!.podIP!}:${port}`;
}

/** The address of the API servers' Service in a seed, whatever the DNS record says. */
async function addressIn({ seeds }: ControlPlaneTestbed, seed: "seed-a" | "seed-b"): Promise<string> {
  const path = `/api/v1/namespaces/${seedNamespace}/services/kube-apiserver`;
  const { status } = await seeds[seed].api.json<Service>({ path });
  const address = status?.loadBalancer?.ingress?.[0]?.ip;
  if (address === undefined) throw new Error(`Service kube-apiserver has no address in ${seed}`);
  return address;
}

function vpnSide(name: string, address: string): VpnSide {
  return { name, address, port: 443 };
}
