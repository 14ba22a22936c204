import { join } from "node:path";
import { ApiServer } from "../../kubernetes/api-server.ts";
import { awaitObjects } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { startBind } from "../bind.ts";
import type { BindServers } from "../bind.ts";
import { writeKubeconfig } from "../kubeconfig.ts";
import { startDriver } from "./driver.ts";
import type { Driver, World } from "./driver.ts";
import { demo, makeGarden } from "./garden-objects.ts";
import { makePki } from "./running/pki.ts";
import type { ControlPlanePki } from "./running/pki.ts";
import { balancerAddress, dnsNames, zone } from "./running/places.ts";
import { RunningPrograms } from "./running/programs.ts";
import { recordWriter } from "./running/records.ts";
import { makeControlPlane, makeSeed } from "./seed-objects.ts";
import type { ControlPlaneOptions } from "./seed-objects.ts";
import { startGardenerServers } from "./servers.ts";
import type { GardenerServers } from "./servers.ts";

export interface GardenerBed {
  /** Where files may be put. */
  readonly dir: string;
  readonly kubeconfigs: GardenerServers["kubeconfigs"];
  readonly apis: Readonly<Record<"garden" | "core" | "source" | "destination", ApiServer>>;
  readonly driver: Driver;
  stop(): Promise<void>;
}

/** A garden, two seeds and a Shoot whose control plane has come to rest at the first. */
export async function startGardenerBed(dir: string): Promise<GardenerBed> {
  return await makeBed(dir, async () => ({ world: {}, options: {} }));
}

export interface RunningGardenerBed extends GardenerBed {
  readonly programs: RunningPrograms;
  readonly pki: ControlPlanePki;
  readonly bind: BindServers;
  /** Of the control plane itself, by its DNS name. */
  readonly kubeconfig: string;
}

/** TTL of the running bed's DNS records: short, because a move waits for it. */
export const TTL_SECONDS = 3;

/**
 * The same, with real etcds and API servers behind the pods of the control plane and real servers of its zone. The Shoot
 * has no workers' network: no VPN. Needs root: members' inner names are led into each seed by a mount of its own.
 */
export async function startRunningGardenerBed(dir: string): Promise<RunningGardenerBed> {
  const pki = await makePki(join(dir, "control-plane-pki"));
  const records = dnsNames.map((name) => `${name}. ${TTL_SECONDS} IN A ${balancerAddress("source", 0)}`);
  const bind = await startBind({ dir: join(dir, "bind"), zone, records });
  let programs: RunningPrograms | undefined;
  const stopPrograms = async () => {
    await programs?.stopAll();
    await bind.stop();
  };
  try {
    const bed = await makeBed(dir, async (apis) => {
      programs = RunningPrograms.start(join(dir, "pods"), apis, pki);
      return {
        world: { programs, writeRecord: await recordWriter(bind) },
        options: { contents: pki.secrets, vpn: false, ttlSeconds: TTL_SECONDS },
      };
    });
    const url = `https://${dnsNames[1]}`;
    const kubeconfig = await writeKubeconfig(join(dir, "control-plane.kubeconfig"), { demo: url }, pki.admin);
    return {
      ...bed,
      programs: programs!,
      pki,
      bind,
      kubeconfig,
      async stop() {
        await bed.stop();
        await stopPrograms();
      },
    };
  } catch (error) {
    await stopPrograms();
    throw error;
  }
}

type Apis = GardenerBed["apis"];

async function makeBed(
  dir: string,
  prepare: (apis: Apis) => Promise<{ readonly world: World; readonly options: ControlPlaneOptions }>,
): Promise<GardenerBed> {
  const { kubeconfigs, stop } = await startGardenerServers(dir);
  const api = (name: keyof typeof kubeconfigs) => new ApiServer(name, { kubeconfig: kubeconfigs[name] });
  const apis = {
    garden: api("garden"),
    core: api("core"),
    source: api("source"),
    destination: api("destination"),
  };
  let driver: Driver | undefined;
  try {
    await makeGarden(apis.core, apis.garden);
    await makeSeed(apis.source, { newDruid: true });
    await makeSeed(apis.destination, { newDruid: true });
    const { world, options } = await prepare(apis);
    driver = startDriver(apis, demo.namespace, world);
    await makeControlPlane(apis.source, options);
    await awaitRest(apis.source, 6 + 2 + 2 + 3 + (options.vpn === false ? 0 : 1));
  } catch (error) {
    await driver?.stop();
    await stop();
    throw error;
  }
  const started = driver;
  return {
    dir,
    kubeconfigs,
    apis,
    driver: started,
    async stop() {
      await started.stop();
      await stop();
    },
  };
}

async function awaitRest(api: ApiServer, expected: number): Promise<void> {
  type Pod = KubeObject & { status?: { conditions?: { type: string; status: string }[] } };
  const ready = ({ status }: Pod) =>
    status?.conditions?.some((known) => known.type === "Ready" && known.status === "True") === true;
  const holds = (pods: readonly Pod[]) => {
    const count = pods.filter(ready).length;
    return count === expected || `${count} of ${expected} pods are ready`;
  };
  const path = `/api/v1/namespaces/${demo.namespace}/pods`;
  const options = {
    what: "the control plane runs",
    deadlineMs: 120_000,
    signal: AbortSignal.timeout(120_000),
  };
  await awaitObjects<Pod>(api, { path }, holds, options);
}
