import type { Sites } from "../sites/sites.ts";
import { underDryRunNames } from "../workflows/engine/names.ts";
import { classified } from "./classify.ts";
import { createControlPlanePlan } from "./control-plane/dry-run.ts";
import { createControlPlaneActivities } from "./control-plane/index.ts";
import { createLogicalClusterPlan } from "./logical-cluster/dry-run.ts";
import { createLogicalClusterActivities } from "./logical-cluster/index.ts";

/** All activities of all kinds by name, those of dry runs under their prefixed names. */
export function createActivities(sites: Sites): object {
  const real = {
    ...createLogicalClusterActivities(sites.kcp),
    ...createControlPlaneActivities(sites.controlPlanes),
  };
  const planned = { ...createLogicalClusterPlan(sites.kcp), ...createControlPlanePlan(sites.controlPlanes) };
  return classified({ ...real, ...underDryRunNames({ ...planned }) });
}
