import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { MoveReport } from "../../activities/logical-cluster/types.ts";
import { startMove } from "../../cli/commands/start.ts";
import { operator, targetFrom, withClient } from "../../cli/connection.ts";
import { inputFrom } from "../../cli/input.ts";
import { count } from "../../cli/view/format.ts";
import type { Hints } from "../../cli/view/hints.ts";
import { failureLines } from "../../cli/view/report.ts";
import { startLogicalClusterTestbed } from "../logical-cluster.ts";
import type { LogicalClusterTestbed } from "../logical-cluster.ts";
import { fenceOf } from "../workload/fence.ts";
import { Clients } from "../workload/clients.ts";
import { FrontProxy } from "../workload/front-proxy.ts";
import { conclude } from "../workload/result.ts";
import type { ClientsResult } from "../workload/result.ts";
import { checkSemantics } from "../workload/semantics.ts";
import { createWorkload } from "../workload/workload.ts";
import type { Workload } from "../workload/workload.ts";
import { watchToTheEnd } from "./move.ts";
import { makeReport } from "./report.ts";
import { observedAfterMs, observedBeforeMs } from "./demo.ts";
import type { Demo, DemoOptions } from "./demo.ts";
import type { DemoReport } from "./report.ts";
import { reportLines } from "./report-text.ts";
import { Steps } from "./steps.ts";
import { startWorker } from "./worker.ts";

/**
 * Brings kcp, Temporal and a worker up, fills a workspace, keeps clients at
 * work in it, moves it, and judges. Leaves the servers running.
 * @throws Error when a server does not come up, or when the move has failed
 */
export async function demonstrateLogicalCluster(options: DemoOptions): Promise<Demo> {
  const { dir, objects, requestsPerSecond } = options;
  const steps = new Steps(options.out, options.signal);
  try {
    const testbed = await steps.step("kcp with two shards, and Temporal", async (tell) => {
      return await startLogicalClusterTestbed({ dir, onProgress: (server) => tell(`starting ${server}`) });
    });
    const { configFile, kcp } = testbed;
    const { kubeconfig } = kcp.frontProxy;
    await steps.step("a worker", async () => await startWorker(configFile, dir));
    const workload = await steps.step(
      `workspace root:team-a with ${count(objects)} objects`,
      async (tell) => {
        const onProgress = (done: number) => tell(`${count(done)} objects`);
        return await createWorkload({ kubeconfig, name: "team-a", shard: "root", objects, onProgress });
      },
    );
    const { workspace } = workload;
    const clients = await steps.step(`clients, ${requestsPerSecond} requests a second`, async () => {
      const started = await Clients.start({ kubeconfig, workspace, requestsPerSecond });
      await delay(observedBeforeMs);
      return started;
    });
    steps.close();
    const report = await withClient(await targetFrom({ config: configFile }), async (client) => {
      return await moveAndJudge({ ...options, testbed, workload, clients, client });
    });
    const another = `npm run rehome -- start --config ${configFile} --logical-cluster root:team-a --to root`;
    return {
      report,
      lines: reportLines(report),
      hints: {
        kcp: `KUBECONFIG=${kubeconfig} kubectl --context root get workspaces`,
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
  readonly testbed: LogicalClusterTestbed;
  readonly workload: Workload;
  readonly clients: Clients;
  readonly client: Client;
}

async function moveAndJudge(scene: Scene): Promise<DemoReport> {
  const { testbed, workload, clients, client, out, signal } = scene;
  const { workspace } = workload;
  const hints: Hints = {
    program: "npm run rehome --",
    connection: ["--config", testbed.configFile],
    by: operator(),
  };
  const checked = inputFrom("logicalClusterMigration", { logicalCluster: workspace.path, to: "shard-1" });
  const { workflowId } = await startMove(client, { checked, hints });
  const { uiUrl, namespace } = testbed.temporal;
  const page = `${uiUrl}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`;
  out.write(`\nThe same move in Temporal's UI: ${page}\n\n`);
  const outcome = await watchToTheEnd({ client, workflowId, clients, hints, out, signal });
  if (outcome.status !== "completed") throw new Error(failureLines(outcome).join("\n"));
  const move = outcome.result as MoveReport;
  const description = await client.workflow.getHandle(workflowId).describe();
  const judged = await judge(scene, move);
  return makeReport({ workflowId, uiUrl: page, historyEvents: description.historyLength, move, ...judged });
}

/** Ends the clients and compares what they were told with what is there; then tries what a workspace must be able to do. */
async function judge(
  { workload, clients, testbed, out, signal }: Scene,
  move: MoveReport,
): Promise<{ clients: ClientsResult; defects: readonly string[] }> {
  const { workspace, filling } = workload;
  const steps = new Steps(out, signal);
  try {
    const result = await steps.step("the clients' ledgers against what is there", async () => {
      await delay(observedAfterMs);
      return await conclude(clients, workspace, fenceOf(move));
    });
    const defects = await steps.step("objects, APIs, garbage collection and finalizers", async () => {
      const frontProxy = await FrontProxy.open(testbed.kcp.frontProxy.kubeconfig);
      return await checkSemantics(frontProxy, workspace, filling).finally(() => frontProxy.close());
    });
    return { clients: result, defects };
  } finally {
    steps.close();
  }
}
