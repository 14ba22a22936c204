import { list } from "../../kubernetes/objects.ts";
import { CONTROL_PLANE } from "./carry-over.ts";
import type { StatefulSetLayout } from "./index.ts";
import { LOAD_BALANCER, PEER_PORT, podOf } from "./members.ts";
import type { SeedNamespace, Workload } from "./seed.ts";

/** Why the control plane's objects cannot be moved as they are; empty where they can. */
export async function whyUnfit(
  seed: SeedNamespace,
  layout: StatefulSetLayout,
  members: number,
  signal: AbortSignal,
): Promise<string[]> {
  const services = layout.etcds.flatMap((etcd) =>
    Array.from(
      { length: members },
      async (_, ordinal) => await whyNotExposable(seed, podOf(etcd, ordinal), signal),
    ),
  );
  const unfit = await Promise.all([unnamedWorkloads(seed, layout, signal), ...services]);
  return unfit.filter((reason) => reason !== undefined);
}

/** Workloads are carried over with no replicas, and started by their names in the configuration. */
async function unnamedWorkloads(
  seed: SeedNamespace,
  layout: StatefulSetLayout,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { name, etcds, apiServer, controllers, otherControllers, vpnServer = "" } = layout;
  const named = new Set([...etcds, apiServer.deployment, ...controllers, ...otherControllers, vpnServer]);
  const labels = { [CONTROL_PLANE]: name };
  const found = await Promise.all(
    (["deployments", "statefulsets"] as const).map(
      async (kind) => await list<Workload>(seed.api, { path: seed.workloads(kind), labels }, signal),
    ),
  );
  const unnamed = found
    .flatMap(({ items }) => items)
    .filter(({ metadata, spec }) => !named.has(metadata.name) && (spec.replicas ?? 1) > 0);
  if (unnamed.length === 0) return undefined;
  const which = unnamed.map(({ metadata }) => metadata.name).join(", ");
  return `${which} in ${seed.name} would be started by nobody after the move: name it under controlPlanes.${name}.controllers or .otherControllers, or take the label ${CONTROL_PLANE} off`;
}

/** The move exposes a member's Service, and gives it back as it must have been: without anything else in it. */
async function whyNotExposable(
  seed: SeedNamespace,
  pod: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const service = await seed.service(pod, signal);
  const { type = "ClusterIP", ports = [] } = service?.spec ?? {};
  const others = ports.filter(({ port }) => port !== PEER_PORT);
  if (type === LOAD_BALANCER || (type === "ClusterIP" && others.length === 0)) return undefined;
  const found = others.length === 0 ? `type ${type}` : `port ${others.map(({ port }) => port).join(", ")}`;
  return `Service ${seed.name}/${pod} has ${found}: a member's Service must be of type ClusterIP, with port ${PEER_PORT} alone, or a load balancer`;
}
