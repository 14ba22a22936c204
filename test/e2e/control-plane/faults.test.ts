import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { removeObject } from "../../../kubernetes/objects.ts";
import { pollUntil } from "../../../kubernetes/wait.ts";
import { etcdNames, seedNamespace } from "../../../testbed/control-plane/names.ts";
import { ControlPlaneClients } from "../../../testbed/control-plane/workload/clients.ts";
import { abort, approve, attemptsOf, failureOf, untilGate, untilState } from "../harness/moves.ts";
import { expectUnharmed } from "./clients.ts";
import { openBed, otherSeed, whyNot } from "./bed.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";
import { cutOff } from "./cut-off.ts";
import { IMPATIENT, startTo } from "./moves.ts";
import type { ControlPlaneMove } from "./moves.ts";
import { rulesBroken, watchQuorum } from "./quorum.ts";
import type { QuorumWatch } from "./quorum.ts";
import { apiAddress, expectSettledIn, membersOf } from "./restored.ts";

describe.skipIf(whyNot)(`faults while a control plane moves${whyNot ? ` (${whyNot})` : ""}`, () => {
  let bed: ControlPlaneBed;
  /** Where the control plane is. */
  let here: SeedName = "seed-a";
  beforeAll(async () => {
    bed = await openBed();
  });
  afterAll(async () => {
    await bed?.close();
  });

  let quorum: QuorumWatch;
  beforeEach(() => {
    quorum = watchQuorum(bed);
  });
  afterEach(async () => {
    const broken = rulesBroken(await quorum.problems());
    if (broken.length > 0) throw new Error(broken.join("; "));
  });

  async function untilRunning(move: ControlPlaneMove, phase: string): Promise<void> {
    await untilState(move, ({ status, phase: at }) => status === "running" && at === phase);
  }

  async function expectWrites(seed: SeedName): Promise<void> {
    const api = bed.testbed.apiAt(await apiAddress(bed, seed));
    const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { generateName: "proof-" } };
    await api.json({ method: "POST", path: "/api/v1/namespaces/default/configmaps", body });
  }

  test("the worker is killed in one phase after the other: the move goes on and loses nothing", async () => {
    const { shoot, dns } = bed.testbed;
    const options = {
      kubeconfig: shoot.kubeconfig,
      dnsServers: dns.servers,
      requestsPerSecond: 20,
      watches: 10,
    };
    const clients = await ControlPlaneClients.start(options);
    const to = otherSeed(here);
    const move = await startTo(bed, to, { timeouts: IMPATIENT });
    for (const phase of [
      "JoinDestinationPeers",
      "Soak",
      "HandOverControllers",
      "CommitQuorum",
      "RemoveSourcePeers",
    ]) {
      await untilRunning(move, phase);
      await bed.worker.kill();
      await bed.worker.start();
    }
    expect((await move.result()).verified).toBe(true);
    expectUnharmed(await clients.conclude());
    // No network was cut, so nothing explains a silence either.
    expect(await quorum.problems()).toEqual([]);
    const attempts = await attemptsOf(move);
    expect(attempts.get("joinDestinationPeers")).toBeGreaterThan(1);
    await expectSettledIn(bed, to);
    here = to;
  });

  test("the destination is cut off before the point of no return: the source serves, and an abort ends", async () => {
    const to = otherSeed(here);
    const move = await startTo(bed, to, { gates: ["Soak"] });
    await untilGate(move, "Soak");
    {
      await using _ = await cutOff(bed, to);
      await expectWrites(here);
      await abort(move);
      // The members of the lost seed go while it is away, since that is what the source's safety hangs on.
      for (const etcd of etcdNames) {
        await pollUntil(
          `${etcd} has its three members`,
          async () => {
            const { length } = await membersOf(bed, here, etcd);
            return length === 3 || `${length} members`;
          },
          { everyMs: 500, deadlineMs: 240_000 },
        );
      }
      await expectWrites(here);
    }
    expect((await failureOf(move.result())).type).toBe("Aborted");
    await expectSettledIn(bed, here);
  });

  test("the source is cut off after the point of no return: the destination serves, and the move ends when it is back", async () => {
    const to = otherSeed(here);
    const move = await startTo(bed, to, { gates: ["RemoveSourcePeers"] });
    await untilGate(move, "RemoveSourcePeers");
    expect((await failureOf(abort(move))).message).toMatch(/point of no return/);
    {
      await using _ = await cutOff(bed, here);
      await expectWrites(to);
      await approve(move, "RemoveSourcePeers");
      await untilRunning(move, "CleanUpSource");
      await expectWrites(to);
    }
    expect((await move.result()).verified).toBe(true);
    await expectSettledIn(bed, to);
    here = to;
  });

  test("a member dies on either side, and DNS does not answer: the move waits for them", async () => {
    const { testbed } = bed;
    const to = otherSeed(here);
    const move = await startTo(bed, to, { gates: ["SwitchDNS", "Soak"] });
    await untilGate(move, "SwitchDNS");
    await testbed.dns.primary.stop();
    await approve(move, "SwitchDNS");
    await untilRunning(move, "SwitchDNS");
    await testbed.dns.primary.start();
    await untilGate(move, "Soak");
    const pods = `/api/v1/namespaces/${seedNamespace}/pods`;
    await removeObject(testbed.seeds[here].api, `${pods}/etcd-main-1`);
    await removeObject(testbed.seeds[to].api, `${pods}/etcd-events-0`);
    await approve(move, "Soak");
    expect((await move.result()).verified).toBe(true);
    await expectSettledIn(bed, to);
    here = to;
  });

  test("a round trip of 100 ms between the seeds is measured, and bridged", async () => {
    await bed.testbed.network.wire("seed-a", "seed-b").setDelay(50);
    const to = otherSeed(here);
    const report = await (await startTo(bed, to)).result();
    expect(report.roundTripMs).toBeGreaterThan(80);
    expect(report.roundTripMs).toBeLessThan(150);
    await expectSettledIn(bed, to);
    here = to;
  });

  test("a round trip that is too long is refused with the numbers, and all is as before", async () => {
    await bed.testbed.network.wire("seed-a", "seed-b").setDelay(50);
    const move = await startTo(bed, otherSeed(here), { maxRoundTripMs: 40 });
    const { type, message } = await failureOf(move.result());
    expect(type).toBe("Refused");
    expect(message).toMatch(/a round trip between \S+ and \S+ takes \d+\.\d ms/);
    expect(message).toMatch(/maxRoundTripMs 40/);
    await expectSettledIn(bed, here);
  });
});
