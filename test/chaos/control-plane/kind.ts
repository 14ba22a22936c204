import { randomBytes } from "node:crypto";
import type { ControlPlaneReport } from "../../../activities/control-plane/types.ts";
import { CONTROL_PLANE_PHASES } from "../../../inputs/control-plane-migration.ts";
import { ControlPlaneClients } from "../../../testbed/control-plane/workload/clients.ts";
import type { ControlPlaneClientsResult } from "../../../testbed/control-plane/workload/conclusion.ts";
import { PREFLIGHT } from "../../../workflows/engine/state.ts";
import { openBed, otherSeed } from "../../e2e/control-plane/bed.ts";
import type { ControlPlaneBed, SeedName } from "../../e2e/control-plane/bed.ts";
import { expectUnharmed } from "../../e2e/control-plane/clients.ts";
import { IMPATIENT, startTo } from "../../e2e/control-plane/moves.ts";
import { rulesBroken, watchQuorum } from "../../e2e/control-plane/quorum.ts";
import { expectSettledIn } from "../../e2e/control-plane/restored.ts";
import type { Place } from "../fault.ts";
import type { Kind, Round } from "../kind.ts";
import { WorkerPair } from "../../e2e/harness/worker-pair.ts";
import { faults } from "./faults.ts";

/** A control plane in one of two seeds, and where it is. */
export interface ControlPlanePlace extends Place {
  readonly bed: ControlPlaneBed;
  here: SeedName;
  close(): Promise<void>;
}

export const controlPlane: Kind<ControlPlanePlace> = {
  name: "control-plane",
  stages: [PREFLIGHT, ...CONTROL_PLANE_PHASES].map((phase) => ({ phase })),
  faults,
  async open() {
    const bed = await openBed();
    const workers = WorkerPair.of(bed.testbed.configFile, bed.worker);
    const close = async () => {
      await workers.stop();
      await bed.close();
    };
    return { bed, workers, temporal: bed.testbed.temporal.server, here: "seed-a", close };
  },
  begin,
};

async function begin(place: ControlPlanePlace): Promise<Round> {
  const { bed, here } = place;
  const { shoot, dns } = bed.testbed;
  const clients = await ControlPlaneClients.start({
    kubeconfig: shoot.kubeconfig,
    dnsServers: dns.servers,
    namespace: `clients-${randomBytes(4).toString("hex")}`,
    requestsPerSecond: 20,
    watches: 10,
  });
  const quorum = watchQuorum(bed);
  return {
    start: async (gates) => await startTo(bed, otherSeed(here), { timeouts: IMPATIENT, gates }),
    async conclude(report, hidden) {
      const move = report as ControlPlaneReport | undefined;
      if (move !== undefined) place.here = otherSeed(here);
      const result = await clients.conclude();
      const problems = await quorum.problems();
      const broken = [
        ...brokenPromises(result),
        ...(hidden ? wordsOf(() => expectUnharmed(result)) : []),
        ...(hidden ? problems : rulesBroken(problems)),
        ...(move === undefined || move.verified ? [] : ["the move was not verified"]),
        ...(await expectSettledIn(bed, place.here).then(() => [], toWords)),
      ];
      return { broken, longestGapMs: result.longestGapMs };
    },
  };
}

function brokenPromises(result: ControlPlaneClientsResult): string[] {
  const { lostExamples, missedExamples, staleExamples, resourceVersionRegressions: regressions } = result;
  return [
    ...lostExamples.map(({ key, expected, found }) => `lost: ${key}: ${expected}, found ${found}`),
    ...missedExamples.map((one) => `missed: ${one}`),
    ...staleExamples.map((one) => `stale: ${one}`),
    ...(regressions === 0 ? [] : [`${regressions} resourceVersions went back`]),
  ];
}

function wordsOf(check: () => void): string[] {
  try {
    check();
    return [];
  } catch (error) {
    return toWords(error);
  }
}

function toWords(error: unknown): string[] {
  return [error instanceof Error ? error.message : String(error)];
}
