import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { createApiServerActivities } from "./api-servers.ts";
import { createCommitActivities } from "./commit.ts";
import { createDnsActivities } from "./dns.ts";
import { createFinishActivities } from "./finish.ts";
import { createHostedActivities } from "./hosted.ts";
import { createJoinActivities } from "./join.ts";
import { createPreflight } from "./preflight.ts";
import { createSoakActivities } from "./soak.ts";
import type { ControlPlaneActivities } from "./types.ts";

/** The steps of `controlPlaneMigration` against real seeds. */
export function createControlPlaneActivities(sites: ControlPlaneSites): ControlPlaneActivities {
  return {
    preflightControlPlane: createPreflight(sites),
    ...createHostedActivities(sites),
    ...createDnsActivities(sites),
    ...createJoinActivities(sites),
    ...createApiServerActivities(sites),
    ...createSoakActivities(sites),
    ...createCommitActivities(sites),
    ...createFinishActivities(sites),
  };
}
