import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { EtcdCluster } from "../../etcd/membership/cluster.ts";
import type { Located } from "../../etcd/membership/cluster.ts";
import { listMembers } from "../../etcd/membership/converge.ts";
import { GaveUpError, MembershipError } from "../../etcd/membership/errors.ts";
import { compareHashes } from "../../etcd/membership/hashes.ts";
import { readTls } from "../../etcd/membership/member.ts";
import { addLearner, moveLeader, promote, removeMember } from "../../etcd/membership/operations.ts";
import { surveyMembers } from "../../etcd/membership/survey.ts";
import { awaitInSync, syncState } from "../../etcd/membership/sync.ts";
import { prefixRange } from "../../etcd/keys.ts";
import { watch } from "../../etcd/watch.ts";
import { LIMIT, startCluster, startMutingProxy, within } from "./membership-fixture.ts";
import type { Bed } from "./membership-fixture.ts";

let bed: Bed;

beforeAll(async () => {
  bed = await startCluster();
});

afterAll(async () => await bed.stop());

// Each test finds the source's three voters well and in sync, and no learner.
beforeEach(async () => {
  for (const id of await bed.learners()) await removeMember(bed.cluster, id, within(120_000));
  await vi.waitUntil(async () => {
    const { members } = await surveyMembers(bed.cluster, bed.siteOf, LIMIT);
    return members.length === 3 && members.every(({ inSync }) => inSync);
  }, 120_000);
});

/** A cluster whose leader hears everything and, once it has been asked who leads, answers nothing any more. */
async function mutedLeader() {
  const lead = await bed.leader();
  const proxy = await startMutingProxy(lead.endpoint);
  class MutedLeader extends EtcdCluster {
    override async leader(signal?: AbortSignal): Promise<Located> {
      const located = await super.leader(signal);
      proxy.mute();
      return located;
    }
  }
  const others = [...bed.source, ...bed.destination].filter((member) => member !== lead);
  const cluster = new MutedLeader({
    name: "etcd-main",
    endpoints: [...others.map(({ endpoint }) => endpoint), proxy.endpoint],
    tls: readTls(bed.bed.tls),
    callTimeoutMs: 1_500,
  });
  return {
    cluster,
    async stop() {
      cluster.close();
      await proxy.stop();
    },
  };
}

describe("calls whose outcome is not told", () => {
  test("a learner that was added although the client timed out is found, not added again", async () => {
    const [d0] = bed.destination;
    await awaitAddable();
    const muted = await mutedLeader();
    const begun = performance.now();
    const id = await addLearner(muted.cluster, d0!.peerUrl, within(120_000));
    // It came back through the deadline of the call, not through its answer.
    expect(performance.now() - begun).toBeGreaterThan(1_400);
    await muted.stop();
    expect(await bed.learners()).toEqual([id]);
    expect(await addLearner(bed.cluster, d0!.peerUrl, within(5_000))).toBe(id);
  });

  test("so is a promotion, and a removal", async () => {
    const [d0] = bed.destination;
    const id = await bed.join(d0!);
    await awaitInSync(bed.cluster, id, LIMIT, within(120_000));
    const promoting = await mutedLeader();
    await promote(promoting.cluster, id, { ...within(120_000), permit: bed.permit({ kind: "promote", id }) });
    await promoting.stop();
    expect(await bed.learners()).toEqual([]);
    const removing = await mutedLeader();
    await removeMember(removing.cluster, id, {
      ...within(120_000),
      permit: bed.permit({ kind: "remove", id }),
    });
    await removing.stop();
    const { members } = await listMembers(bed.cluster);
    expect(members.map(({ id: each }) => each)).not.toContain(id);
    await expect(promote(bed.cluster, id, within(5_000))).rejects.toMatchObject({
      refusal: "unknown-member",
    });
  });

  test("with a deadline of 1 ms a call may land or not: the list tells, and one learner is added", async () => {
    const [, d1] = bed.destination;
    await awaitAddable();
    const located = await bed.cluster.leader();
    for (let attempt = 0; attempt < 5; attempt++) {
      const outcome = await located.member.memberAdd([d1!.peerUrl], true, { timeoutMs: 1 }).then(
        () => "answered",
        (error: MembershipError) => error.failure,
      );
      // Ids are made of the peer URL and the second, so the same call in the same second finds the id taken.
      expect(["answered", "ambiguous", "unreachable", "peer-url-exists", "member-exists"]).toContain(outcome);
    }
    const id = await addLearner(bed.cluster, d1!.peerUrl, within(120_000));
    expect(await bed.learners()).toEqual([id]);
    await removeMember(bed.cluster, id, within(120_000));
    await removeMember(bed.cluster, id, within(120_000));
  });
});

/** Waits until etcd's strict check would let a member in, by its own answer: a learner is added and removed. */
async function awaitAddable(): Promise<void> {
  const id = await addLearner(bed.cluster, "https://127.0.0.18:2380", within(120_000));
  await removeMember(bed.cluster, id, within(120_000));
}

describe("members that are down", () => {
  test("nothing is added while a voter is down, and it goes on by itself once it is back", async () => {
    const [, , d2] = bed.destination;
    const down = bed.source.find((member) => member !== undefined)!;
    const survivor = await bed.idOf(bed.source[1]!);
    await moveLeader(bed.cluster, survivor, within(120_000));
    await down.server!.kill();
    const refused = addLearner(bed.cluster, d2!.peerUrl, {
      ...within(4_000),
      permit: bed.permit({ kind: "add-learner" }),
    });
    await expect(refused).rejects.toThrow(GaveUpError);
    await expect(refused).rejects.toThrow(/the voter \w+ is not healthy/);
    // etcd itself refuses as well.
    await expect(addLearner(bed.cluster, d2!.peerUrl, within(3_000))).rejects.toThrow(/unhealthy cluster/);
    expect(await bed.learners()).toEqual([]);
    const waiting = addLearner(bed.cluster, d2!.peerUrl, {
      ...within(120_000),
      permit: bed.permit({ kind: "add-learner" }),
    });
    await down.server!.start();
    const id = await waiting;
    expect(await bed.learners()).toEqual([id]);
  });

  test("etcd promotes a learner that has died; the plan does not, and removes it when it is a voter", async () => {
    const [, , d2] = bed.destination;
    const id = await bed.join(d2!);
    await awaitInSync(bed.cluster, id, LIMIT, within(120_000));
    await d2!.server!.kill();
    const step = { kind: "promote", id } as const;
    const refused = promote(bed.cluster, id, { ...within(3_000), permit: bed.permit(step) });
    await expect(refused).rejects.toThrow(`${id} is not healthy`);
    await expect(syncState(bed.cluster, id)).rejects.toMatchObject({ failure: "unreachable" });
    expect(await bed.learners()).toEqual([id]);
    await (await bed.cluster.leader()).member.memberPromote(id);
    expect(await bed.learners()).toEqual([]);
    await removeMember(bed.cluster, id, { ...within(120_000), permit: bed.permit({ kind: "remove", id }) });
  });

  test("a step that is wrong however healthy the members are is refused at once", async () => {
    const id = await bed.idOf(bed.source[0]!);
    const step = { kind: "remove", id } as const;
    const begun = performance.now();
    await expect(
      removeMember(bed.cluster, id, { ...within(120_000), permit: bed.permit(step) }),
    ).rejects.toMatchObject({
      refusal: "endangers-quorum",
    });
    // Long before the time in which it would try again is over.
    expect(performance.now() - begun).toBeLessThan(60_000);
  });

  test("a frozen voter leaves hashes incomparable and the survey unhealthy", async () => {
    const lead = await bed.leader();
    const frozen = bed.source.find((member) => member !== lead)!;
    const id = await bed.idOf(frozen);
    await frozen.server!.freeze();
    try {
      const { members } = await surveyMembers(bed.cluster, bed.siteOf, LIMIT);
      expect(members.filter(({ healthy }) => !healthy).map((member) => member.id)).toEqual([id]);
      const { revision } = (await bed.cluster.leader()).status;
      expect(await compareHashes(bed.cluster, revision)).toEqual({
        outcome: "incomparable",
        reason: `${id} did not answer`,
        newer: false,
      });
    } finally {
      frozen.server!.thaw();
    }
  });
});

describe("a member that has lost its quorum", () => {
  test("ends a watch, instead of telling nothing for ever, and knows no leader", async () => {
    const [first, ...others] = bed.source;
    const store = bed.store([first!]);
    const opened = Promise.withResolvers<void>();
    const signal = AbortSignal.timeout(60_000);
    const range = prefixRange("/registry/");
    const changes = watch(store, { range, from: 0n, signal, onOpen: opened.resolve });
    const ended = changes.next().then(
      () => undefined,
      (error: unknown) => error,
    );
    await opened.promise;
    for (const { server } of others) await server!.freeze();
    try {
      expect(String(await ended)).toMatch(/no leader/);
      const { answered } = await bed.cluster.locate();
      expect(answered.map(({ status }) => status.leader)).toEqual([undefined]);
    } finally {
      for (const { server } of others) server!.thaw();
      store.close();
    }
  });
});
