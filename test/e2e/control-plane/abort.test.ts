import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SupersededError } from "../../../etcd/errors.ts";
import { CLAIM, holderOf } from "../../../hosting/claim.ts";
import type { Claim } from "../../../hosting/claim.ts";
import type { Hosting } from "../../../hosting/types.ts";
import { CONTROL_PLANE_PHASES } from "../../../inputs/control-plane-migration.ts";
import { merge } from "../../../kubernetes/objects.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";
import { pollUntil } from "../../../kubernetes/wait.ts";
import { loadSites } from "../../../sites/sites.ts";
import { controlPlane, seedNamespace } from "../../../testbed/control-plane/names.ts";
import { ControlPlaneClients } from "../../../testbed/control-plane/workload/clients.ts";
import { abort, approve, failureOf, untilGate, untilState } from "../harness/moves.ts";
import { isThorough } from "../harness/thorough.ts";
import { resumeUpdate } from "../../../workflows/engine/messages.ts";
import { openBed, whyNot } from "./bed.ts";
import type { ControlPlaneBed } from "./bed.ts";
import { expectUnharmed } from "./clients.ts";
import { startTo } from "./moves.ts";
import { watchQuorum } from "./quorum.ts";
import { addressesOf, expectSettledIn } from "./restored.ts";

/** Everything before the point of no return; `npm run chaos` aborts before each of them. */
const all = CONTROL_PLANE_PHASES.slice(1, CONTROL_PLANE_PHASES.indexOf("CommitQuorum") + 1);
/** An abort undoes all phases before its gate: here all but the two whose undo takes as long as that of the others. */
const some: readonly (typeof all)[number][] = ["HandOverControllers"];
const gates = isThorough ? all : some;

describe.skipIf(whyNot)(`an aborted move of a control plane${whyNot ? ` (${whyNot})` : ""}`, () => {
  let bed: ControlPlaneBed;
  beforeAll(async () => {
    bed = await openBed();
  });
  afterAll(async () => {
    await bed?.close();
  });

  test.each(gates)("before %s leaves the source as it was and nothing at the destination", async (gate) => {
    const { shoot, dns } = bed.testbed;
    const before = await addressesOf(bed, "seed-a");
    const clients = await ControlPlaneClients.start({
      kubeconfig: shoot.kubeconfig,
      dnsServers: dns.servers,
      namespace: `clients-${gate.toLowerCase()}`,
      requestsPerSecond: 20,
      watches: 10,
    });
    await using quorum = watchQuorum(bed);
    const move = await startTo(bed, "seed-b", { gates: [gate] });
    await untilGate(move, gate);
    await abort(move);
    const { type } = await failureOf(move.result());
    expect(type).toBe("Aborted");
    expectUnharmed(await clients.conclude());
    expect(await quorum.problems()).toEqual([]);
    expect(await addressesOf(bed, "seed-a")).toEqual(before);
    await expectSettledIn(bed, "seed-a");
  });

  test("is refused with a workload that nobody would start, and with a Service that it could not give back", async () => {
    const { api } = bed.testbed.seeds["seed-a"];
    const deployments = `/apis/apps/v1/namespaces/${seedNamespace}/deployments`;
    const labels = { "rehome.dev/control-plane": controlPlane, app: "unnamed" };
    const spec = { containers: [{ name: "none", image: "registry.example/none" }] };
    const template = { metadata: { labels }, spec };
    const metadata = { name: "unnamed", labels };
    const body = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata,
      spec: { selector: { matchLabels: labels }, template },
    };
    await api.json({ method: "POST", path: deployments, body });
    const service = `/api/v1/namespaces/${seedNamespace}/services/etcd-main-0`;
    const peer = { name: "peer", port: 2380 };
    const setPorts = async (...ports: object[]) =>
      await api.json({ method: "PATCH", path: service, body: { spec: { ports } } });
    await setPorts(peer, { name: "client", port: 2379 });
    const { type, message } = await failureOf((await startTo(bed, "seed-b")).result());
    await setPorts(peer);
    await api.json({ method: "DELETE", path: `${deployments}/unnamed` });
    expect(type).toBe("Refused");
    expect(message).toContain("unnamed in");
    expect(message).toContain("would be started by nobody");
    expect(message).toContain("etcd-main-0 has port 2379");
    await expectSettledIn(bed, "seed-a");
  });

  test.runIf(isThorough)(
    "is undone where somebody else has made the destination's namespace, which stays",
    async () => {
      const gate = "CopySecrets";
      const move = await startTo(bed, "seed-b", { gates: [gate] });
      await untilGate(move, gate);
      const { api } = bed.testbed.seeds["seed-b"];
      const path = `/api/v1/namespaces/${seedNamespace}`;
      const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: seedNamespace } };
      await api.json({ method: "POST", path: "/api/v1/namespaces", body });
      await approve(move, gate);
      expect((await failureOf(move.result())).message).toContain("is claimed by the move nobody");
      expect(holderOf(await api.json<KubeObject>({ path }))).toBeUndefined();
      await api.json({ method: "DELETE", path });
      await pollUntil("it is gone", async () => (await api.find({ path })) === undefined || "still there", {
        everyMs: 100,
        deadlineMs: 240_000,
      });
      await expectSettledIn(bed, "seed-a");
    },
  );

  test.runIf(isThorough)("is undone only when the claim that somebody has taken away is back", async () => {
    const gate = "JoinDestinationPeers";
    const move = await startTo(bed, "seed-b", { gates: [gate] });
    await untilGate(move, gate);
    const { api } = bed.testbed.seeds["seed-a"];
    const path = `/api/v1/namespaces/${seedNamespace}`;
    const setHolder = async (holder: string | null) =>
      await merge(api, path, { metadata: { annotations: { [CLAIM]: holder } } });
    const holder = holderOf(await api.json<KubeObject>({ path }))!;
    await setHolder(null);
    await approve(move, gate);
    await untilState(move, ({ status }) => status === "needs attention");
    await setHolder(holder);
    await move.executeUpdate(resumeUpdate, { args: [{ by: "anna" }] });
    expect((await failureOf(move.result())).type).toBe("LockLost");
    await expectSettledIn(bed, "seed-a");
  });

  test.runIf(isThorough)("is not disturbed by attempts that nobody waits for any more", async () => {
    const gate = "JoinDestinationPeers";
    const move = await startTo(bed, "seed-b", { gates: [gate] });
    await untilGate(move, gate);
    const path = `/api/v1/namespaces/${seedNamespace}`;
    const holder = holderOf(await bed.testbed.seeds["seed-a"].api.json<KubeObject>({ path }));
    if (holder === undefined) throw new Error(`nobody has written ${CLAIM}`);
    const attemptAt = (epoch: number) => hostingOf(bed, { move: holder, epoch });

    await expect(attemptAt(1).requireClaim(limit())).rejects.toThrow(SupersededError);
    const begunAt = Date.now();
    const stale = attemptAt(begunAt - 1);
    await stale.requireClaim(limit());
    await attemptAt(begunAt).requireClaim(limit());
    for (const change of changesOf(stale)) await expect(change(limit())).rejects.toThrow(SupersededError);

    await abort(move);
    expect((await failureOf(move.result())).type).toBe("Aborted");
    // Now the claim is gone, or the undo has left its rank on what is to be changed.
    for (const change of changesOf(stale))
      await expect(change(limit())).rejects.toThrow(/claimed by the move nobody|a newer attempt/);
    await expect(stale.claim(limit())).rejects.toThrow(SupersededError);
    await expectSettledIn(bed, "seed-a");
  });
});

function limit(): AbortSignal {
  return AbortSignal.timeout(30_000);
}

function hostingOf(bed: ControlPlaneBed, claim: Claim): Hosting {
  const ends = { source: "seed-a", destination: "seed-b" };
  return loadSites(bed.testbed.configFile).controlPlanes.controlPlane(controlPlane, ends, claim).hosting;
}

/** What steps do to the source, which would hurt beside an undo, or after it. */
function changesOf(hosting: Hosting): ((signal: AbortSignal) => Promise<unknown>)[] {
  return [
    async (signal) => await hosting.stopApiServers("source", signal),
    async (signal) => await hosting.fenceControllers("source", signal),
    async (signal) => await hosting.stopMembers("source", "etcd-main", 2, signal),
    async (signal) => await hosting.clearSource(signal),
    async (signal) => {
      const { values } = await hosting.apiServerAddress("source", signal);
      await hosting.dns.replace(values, { values: ["127.0.0.9"], ttlSeconds: 1 }, signal);
    },
  ];
}
