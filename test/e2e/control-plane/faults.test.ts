import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parseServer } from "../../../dns/names.ts";
import { query } from "../../../dns/query.ts";
import { CONTROL_PLANE } from "../../../hosting/statefulset/carry-over.ts";
import { SeedNamespace } from "../../../hosting/statefulset/seed.ts";
import { merge, removeObject } from "../../../kubernetes/objects.ts";
import { pollUntil } from "../../../kubernetes/wait.ts";
import {
  apiServerName,
  controlPlane,
  etcdNames,
  seedNamespace,
  singletons,
} from "../../../testbed/control-plane/names.ts";
import { ControlPlaneClients } from "../../../testbed/control-plane/workload/clients.ts";
import {
  abort,
  approve,
  attemptsOf,
  failureOf,
  untilGate,
  untilPending,
  untilState,
} from "../harness/moves.ts";
import { isThorough } from "../harness/thorough.ts";
import { expectUnharmed } from "./clients.ts";
import { openBed, otherSeed, whyNot } from "./bed.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";
import { cutOff } from "./cut-off.ts";
import { IMPATIENT, KILLED_IN, startTo } from "./moves.ts";
import type { ControlPlaneMove } from "./moves.ts";
import { rulesBroken, watchQuorum } from "./quorum.ts";
import type { QuorumWatch } from "./quorum.ts";
import { apiAddress, expectSettledIn, membersOf } from "./restored.ts";

/** Only in a thorough run. In every run the worker is killed in one step (move.test.ts). */
describe.skipIf(whyNot !== undefined || !isThorough)(
  `faults while a control plane moves${whyNot ? ` (${whyNot})` : ""}`,
  () => {
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
      for (const activity of KILLED_IN) {
        await untilPending(move, activity);
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
      const gate = "CommitQuorum";
      const move = await startTo(bed, to, { gates: [gate] });
      await untilGate(move, gate);
      // One of the zone's servers is lost with it.
      await bed.testbed.dns.secondary.stop();
      {
        await using _ = await cutOff(bed, to);
        await approve(move, gate);
        // Nothing can be proven equal, so nothing is committed; between two attempts the move can be aborted.
        await untilState(move, ({ status }) => status === "retrying later");
        await abort(move);
        // Neither the users nor the quorum wait for the lost seed, whose controllers may still run.
        const address = await apiAddress(bed, here);
        await pollUntil(
          "the name leads to the source",
          async () => {
            const { values } = await query(parseServer(bed.testbed.dns.servers[0]), apiServerName, "A");
            return values.join() === address || values.join();
          },
          { everyMs: 500, deadlineMs: 240_000 },
        );
        await expectWrites(here);
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
        const api = bed.testbed.seeds[here].api;
        for (const name of singletons)
          expect(
            (await new SeedNamespace(api, seedNamespace).workload("deployments", name))?.spec.replicas,
          ).toBe(0);
      }
      await bed.testbed.dns.secondary.start();
      expect((await failureOf(move.result())).type).toBe("Aborted");
      await expectSettledIn(bed, here);
    }, 900_000);

    test("the destination's API servers go before the source's are stopped: those go on, and the move is undone", async () => {
      const to = otherSeed(here);
      const gate = "DrainSourceKubeAPIServer";
      const move = await startTo(bed, to, { gates: [gate] });
      await untilGate(move, gate);
      await stopApiServers(to);
      await approve(move, gate);
      const { type, message } = await failureOf(move.result());
      expect(type).toBe("Refused");
      expect(message).toContain(`the API servers at ${to} do not serve`);
      const attempts = await attemptsOf(move);
      expect(attempts.get("drainSourceApiServers")).toBe(1);
      await expectSettledIn(bed, here);
    }, 900_000);

    test("the destination's API servers go before the point of no return: no member is removed", async () => {
      const to = otherSeed(here);
      const gate = "CommitQuorum";
      const move = await startTo(bed, to, { gates: [gate] });
      await untilGate(move, gate);
      await stopApiServers(to);
      await approve(move, gate);
      await untilState(move, ({ status }) => status === "retrying later");
      for (const etcd of etcdNames) expect(await membersOf(bed, here, etcd)).toHaveLength(6);
      await scaleApiServers(to, 2);
      expect((await move.result()).verified).toBe(true);
      await expectSettledIn(bed, to);
      here = to;
    }, 900_000);

    test("members and DNS fail, then the source after the point of no return: the move waits, the destination serves", async () => {
      const { testbed } = bed;
      const to = otherSeed(here);
      const gates = ["SwitchDNS", "Soak", "HandOverControllers", "RemoveSourcePeers"];
      const move = await startTo(bed, to, { gates });
      await untilGate(move, "SwitchDNS");
      await testbed.dns.primary.stop();
      await approve(move, "SwitchDNS");
      await untilRunning(move, "SwitchDNS");
      await testbed.dns.primary.start();
      await untilGate(move, "Soak");
      const pods = `/api/v1/namespaces/${seedNamespace}/pods`;
      await removeObject(testbed.seeds[here].api, `${pods}/etcd-main-1`);
      await removeObject(testbed.seeds[to].api, `${pods}/etcd-events-0`);
      const secrets = `/api/v1/namespaces/${seedNamespace}/secrets`;
      const renewed = { metadata: { name: "renewed", labels: { [CONTROL_PLANE]: controlPlane } } };
      await approve(move, "Soak");
      await untilGate(move, "HandOverControllers");
      await approve(move, "HandOverControllers");
      const [controller] = singletons;
      const source = new SeedNamespace(testbed.seeds[here].api, seedNamespace);
      await pollUntil(
        `${controller} is stopped`,
        async () => (await source.workload("deployments", controller))?.spec.replicas === 0 || "not yet",
        { everyMs: 20, deadlineMs: 240_000 },
      );
      // As by a controller in its last moments.
      await testbed.seeds[here].api.json({ method: "POST", path: secrets, body: renewed });

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
      expect(await testbed.seeds[to].api.find({ path: `${secrets}/renewed` })).toBeDefined();
      here = to;
    });

    /** As when they are lost: returns when nobody is answered any more. */
    async function stopApiServers(seed: SeedName): Promise<void> {
      const api = bed.testbed.apiAt(await apiAddress(bed, seed));
      await scaleApiServers(seed, 0);
      await pollUntil(
        "the API servers are gone",
        async () =>
          await api.request({ path: "/readyz" }).then(
            ({ status }) => `${status}`,
            () => true as const,
          ),
        { everyMs: 200, deadlineMs: 240_000 },
      );
    }

    async function scaleApiServers(seed: SeedName, replicas: number): Promise<void> {
      const path = `/apis/apps/v1/namespaces/${seedNamespace}/deployments/kube-apiserver`;
      await merge(bed.testbed.seeds[seed].api, path, { spec: { replicas } });
    }

    // A move with 20 ms is made in every run (move.test.ts).
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
  },
);
