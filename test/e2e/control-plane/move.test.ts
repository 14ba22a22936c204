import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ControlPlaneClients } from "../../../testbed/control-plane/workload/clients.ts";
import { expectUnharmed } from "./clients.ts";
import { openBed, otherSeed, whyNot } from "./bed.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";
import { startTo } from "./moves.ts";
import { watchQuorum } from "./quorum.ts";
import { expectSettledIn } from "./restored.ts";

describe.skipIf(whyNot)(`a control plane in use${whyNot ? ` (${whyNot})` : ""}`, () => {
  let bed: ControlPlaneBed;
  beforeAll(async () => {
    bed = await openBed();
  });
  afterAll(async () => {
    await bed?.close();
  });

  test.each<[string, SeedName, number]>([
    ["there", "seed-b", 0],
    ["back, with 20 ms between the seeds,", "seed-a", 20],
  ])(
    "moves %s without a failed request, a missed event or a moment without quorum",
    async (_way, to, rtt) => {
      const { shoot, dns, network } = bed.testbed;
      await network.wire("seed-a", "seed-b").setDelay(rtt / 2);
      const options = {
        kubeconfig: shoot.kubeconfig,
        dnsServers: dns.servers,
        namespace: `clients-to-${to}`,
        requestsPerSecond: 35,
        watches: 20,
      };
      const clients = await ControlPlaneClients.start(options);
      await using quorum = watchQuorum(bed);
      const move = await startTo(bed, to);
      const report = await move.result();
      const result = await clients.conclude();

      expect(report).toMatchObject({ from: otherSeed(to), to, verified: true });
      expect(report.roundTripMs).toBeGreaterThan(rtt * 0.8);
      expect(report.committed?.proofs.map(({ members }) => members)).toEqual([6, 6]);
      expectUnharmed(result);
      expect(result.requests).toBeGreaterThan(500);
      expect(await quorum.problems()).toEqual([]);
      await expectSettledIn(bed, to);
      const { events } = await move.fetchHistory();
      expect(events?.length).toBeLessThan(200);
    },
  );
});
