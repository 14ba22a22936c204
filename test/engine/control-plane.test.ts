import { randomUUID } from "node:crypto";
import { Client, Connection } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime } from "@temporalio/worker";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { createControlPlanePlan } from "../../activities/control-plane/dry-run.ts";
import type { ControlPlaneActivities } from "../../activities/control-plane/types.ts";
import { controlPlaneMigrationInput } from "../../inputs/control-plane-migration.ts";
import { readBundle } from "../../workers/bundle.ts";
import { startWorkers } from "../../workers/start.ts";
import type { RunningWorkers } from "../../workers/start.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { controlPlaneMigration } from "../../workflows/control-plane-migration.ts";
import { abort, failureOf, untilState } from "../e2e/harness/moves.ts";

/** What the workflow of control planes alone decides: its steps do nothing here, and write down when they were called. */

/** In seconds; the shortest that a wait can be told from none by. */
const TTL = 2;

interface Call {
  readonly name: string;
  readonly at: number;
  readonly input: Readonly<Record<string, unknown>>;
}

const taskQueue = `control-planes-${randomUUID()}`;
let client: Client;
let native: NativeConnection;
let workers: RunningWorkers;
let calls: Call[];
let isCommittable: boolean;
let failsToCopy: () => boolean;

function steps(): Record<string, (input: never) => Promise<unknown>> {
  const plan = createControlPlanePlan(undefined as never);
  const live: Partial<ControlPlaneActivities> = {
    preflightControlPlane: async (raw) => ({
      input: controlPlaneMigrationInput.parse(raw),
      controlPlane: "team-a",
      from: "seed-a",
      to: "seed-b",
      dnsName: "api.team-a.example",
      vpn: true,
      controllers: [],
      etcds: [],
      record: { values: ["192.0.2.1"], ttlSeconds: TTL },
    }),
    copySecrets: async () => {
      if (failsToCopy()) throw failure("Conflict", "seed-b has another namespace of that name");
      return await plan.copySecrets(undefined as never);
    },
    setRecordTtl: async () => ({ at: Date.now() }),
    startDestinationApiServers: async () => ({ url: "", values: ["192.0.2.2"] }),
    switchDns: async () => ({ switchedAt: Date.now() }),
    switchDnsBack: async () => ({ switchedAt: Date.now() }),
    commitQuorum: async () => {
      if (!isCommittable) throw failure("NotCommitted", "seed-b does not answer");
      return { proofs: [], evenMs: {}, committedAt: Date.now() };
    },
  };
  const all = Object.entries({ ...plan, ...live } as Record<string, (input: unknown) => Promise<unknown>>);
  const noted = all.map(([name, step]) => [
    name,
    async (input: Call["input"]) => {
      calls.push({ name, at: Date.now(), input });
      return await step(input);
    },
  ]);
  return Object.fromEntries(noted) as ReturnType<typeof steps>;
}

beforeAll(async () => {
  const { address, namespace } = inject("temporal");
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  client = new Client({ connection: await Connection.connect({ address }), namespace });
  native = await NativeConnection.connect({ address });
  const bundle = await readBundle();
  const options = { connection: native, namespace, activities: steps(), bundle, taskQueue };
  workers = await startWorkers({ ...options, shutdownGraceMs: 0 });
});
afterAll(async () => {
  await workers?.stop();
  await native?.close();
  await client?.connection.close();
});
beforeEach(() => {
  calls = [];
  isCommittable = true;
  failsToCopy = () => false;
});

async function start() {
  return await client.workflow.start<typeof controlPlaneMigration>("controlPlaneMigration", {
    taskQueue,
    workflowId: `move-${randomUUID()}`,
    args: [{ controlPlane: "team-a", to: "seed-b", switchTtlSeconds: 1 }],
  });
}

function calledAt(name: string): number {
  const call = calls.find((known) => known.name === name);
  if (call === undefined) throw new Error(`${name} was not called`);
  return call.at;
}

describe("a move of a control plane", () => {
  test("switches when the old TTL has run out, and drains two of them later", async () => {
    await (await start()).result();
    expect(calledAt("switchDns") - calledAt("setRecordTtl")).toBeGreaterThanOrEqual(TTL * 1000);
    expect(calledAt("soak") - calledAt("switchDns")).toBeGreaterThanOrEqual(1000);
    expect(calledAt("drainSourceApiServers") - calledAt("switchDns")).toBeGreaterThanOrEqual(2 * TTL * 1000);
    const names = calls.map(({ name }) => name);
    // What the source's controllers have written until they stopped is there before the destination's start.
    const handOver = names.indexOf("handOverControllers");
    expect(names.slice(handOver - 3, handOver)).toEqual([
      "copySecrets",
      "stopSourceControllers",
      "copySecrets",
    ]);
  });

  test("whose last copy fails gives the source its controllers back without asking the destination", async () => {
    failsToCopy = () => calls.some(({ name }) => name === "stopSourceControllers");
    expect((await failureOf((await start()).result())).type).toBe("Conflict");
    const returned = calls.filter(({ name }) => name === "returnControllers");
    expect(returned.map(({ input }) => input["onlyStopped"])).toEqual([true, true]);
    expect(calls.map(({ name }) => name)).not.toContain("handOverControllers");
  });

  test("that cannot commit is tried again later, and can be aborted until then: nobody waits for a lost seed", async () => {
    isCommittable = false;
    const move = await start();
    await untilState(move, ({ status }) => status === "retrying later");
    await abort(move);
    expect((await failureOf(move.result())).type).toBe("Aborted");
    const undone = calls.slice(calls.findIndex(({ name }) => name === "commitQuorum") + 1);
    expect(
      undone.map(({ name, input }) => [name, ...(input["unlessLost"] === true ? ["unless lost"] : [])]),
    ).toEqual([
      ["restartSourceApiServers"],
      ["bridgeVpn", "unless lost"],
      ["returnControllers", "unless lost"],
      ["switchDnsBack"],
      ["moveVpnClients", "unless lost"],
      ["dismantleVpnBridge", "unless lost"],
      ["dismantleVpnBridge", "unless lost"],
      ["dismantleVpnBridge", "unless lost"],
      ["stopDestinationApiServers"],
      ["removeDestinationPeers"],
      ["returnControllers"],
      ["clearDestinationSeed"],
      ["hideSourcePeers"],
      ["restoreRecordTtl"],
      ["releaseControlPlane"],
    ]);
  });
});
