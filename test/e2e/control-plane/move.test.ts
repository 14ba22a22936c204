import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { withWritesHeld } from "../../../activities/control-plane/hold.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { ControlPlaneClients } from "../../../testbed/control-plane/workload/clients.ts";
import { attemptsOf, historyText, untilPending } from "../harness/moves.ts";
import { expectUnharmed } from "./clients.ts";
import { openBed, otherSeed, whyNot } from "./bed.ts";
import type { ControlPlaneBed } from "./bed.ts";
import { IMPATIENT, startTo } from "./moves.ts";
import { watchQuorum } from "./quorum.ts";
import { expectSettledIn, holdsAt, secretLines } from "./restored.ts";

describe.skipIf(whyNot)(`a control plane in use${whyNot ? ` (${whyNot})` : ""}`, () => {
  let bed: ControlPlaneBed;
  beforeAll(async () => {
    bed = await openBed();
  });
  afterAll(async () => {
    await bed?.close();
  });

  it("lets writes wait for a second when nobody ends the hold, refuses none, and lets no read wait", async () => {
    const api = bed.testbed.apiAt(bed.testbed.addresses.apiServer);
    const path = "/api/v1/namespaces/default/configmaps";
    await api.json({ method: "POST", path, body: { metadata: { name: "held" } } });
    const read = async () => await api.json({ path: `${path}/held` });
    const write = async () => {
      const begun = performance.now();
      await api.json({ method: "PATCH", path: `${path}/held`, body: { data: { at: String(begun) } } });
      return performance.now() - begun;
    };
    const isHeld = async (wanted: boolean) => {
      await vi.waitFor(async () => expect((await write()) >= 1_000).toBe(wanted), { timeout: 240_000 });
    };
    const { signal } = new AbortController();
    const request: ApiServer["request"] = async (input) =>
      await api.request(input.method === "DELETE" ? { path } : input);
    const endsNoHold = { name: api.name, request };
    expect(await withWritesHeld(endsNoHold, [], signal, async () => undefined)).toBeGreaterThan(0);
    await isHeld(true);
    await Promise.all([write(), write(), write()]);
    const first = await Promise.race([write().then(() => "write"), read().then(() => "read")]);
    expect(first).toBe("read");
    // What another attempt finds it ends, and does without.
    expect(await withWritesHeld(api, [], signal, async () => undefined)).toBeUndefined();
    await isHeld(false);
  });

  it("ends the hold after its second, however long the hand-over takes, and also without the claim", async () => {
    let asked = 0;
    const api = bed.testbed.apiAt(bed.testbed.addresses.apiServer).guardedBy(async () => {
      if (++asked > 1) throw new Error("the claim is lost");
    });
    const { signal } = new AbortController();
    const isGone = async () => expect(await holdsAt(api)).toEqual([]);
    const heldMs = await withWritesHeld(api, [], signal, async () => {
      await vi.waitFor(isGone, { timeout: 240_000 });
    });
    expect(heldMs).toBeGreaterThanOrEqual(999);
    expect(asked).toBe(1);
  });

  it("moves, with 20 ms between the seeds, without a failed request, a missed event or a moment without quorum", async () => {
    const { shoot, dns, network } = bed.testbed;
    const rtt = 20;
    await network.wire("seed-a", "seed-b").setDelay(rtt / 2);
    const clients = await ControlPlaneClients.start({
      kubeconfig: shoot.kubeconfig,
      dnsServers: dns.servers,
      requestsPerSecond: 20,
      watches: 10,
    });
    await using quorum = watchQuorum(bed);
    const to = "seed-b";
    const move = await startTo(bed, to, { timeouts: IMPATIENT });
    // The worker dies in the middle of it.
    await untilPending(move, "commitQuorum");
    await bed.worker.kill();
    await bed.worker.start();
    const report = await move.result();
    const result = await clients.conclude();

    expect(report).toMatchObject({ from: otherSeed(to), to, verified: true });
    expect(report.roundTripMs).toBeGreaterThan(rtt * 0.8);
    expect(report.committed?.proofs.map(({ members }) => members)).toEqual([6, 6]);
    expectUnharmed(result);
    expect(result.requests).toBeGreaterThan(500);
    expect(await quorum.problems()).toEqual([]);
    await expectSettledIn(bed, to);
    expect((await attemptsOf(move)).get("commitQuorum")).toBeGreaterThan(1);
    const { events, text } = await historyText(move);
    expect(events).toBeLessThan(250);
    const told = text + readFileSync(bed.worker.spec.logFile, "utf8");
    expect(told).toContain("CommitQuorum");
    const secrets = await secretLines(bed, to);
    expect(secrets.length).toBeGreaterThan(20);
    expect(secrets.filter((secret) => told.includes(secret))).toEqual([]);
  });
});
