import { ApiServer } from "../../kubernetes/api-server.ts";
import { awaitObjects } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { startDriver } from "./driver.ts";
import type { Driver } from "./driver.ts";
import { demo, makeGarden } from "./garden-objects.ts";
import { makeControlPlane, makeSeed } from "./seed-objects.ts";
import { startGardenerServers } from "./servers.ts";

export interface GardenerBed {
  readonly apis: Readonly<Record<"garden" | "core" | "source" | "destination", ApiServer>>;
  readonly driver: Driver;
  stop(): Promise<void>;
}

/** A garden, two seeds and a Shoot whose control plane has come to rest at the first. */
export async function startGardenerBed(dir: string): Promise<GardenerBed> {
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
    driver = startDriver(apis, demo.namespace);
    await makeControlPlane(apis.source);
    await awaitRest(apis.source);
  } catch (error) {
    await driver?.stop();
    await stop();
    throw error;
  }
  const started = driver;
  return {
    apis,
    driver: started,
    async stop() {
      await started.stop();
      await stop();
    },
  };
}

async function awaitRest(api: ApiServer): Promise<void> {
  type Pod = KubeObject & { status?: { conditions?: { type: string; status: string }[] } };
  const ready = ({ status }: Pod) =>
    status?.conditions?.some((known) => known.type === "Ready" && known.status === "True") === true;
  const expected = 6 + 2 + 1 + 3;
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
