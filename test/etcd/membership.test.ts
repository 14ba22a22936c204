import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { EtcdCluster } from "../../etcd/membership/cluster.ts";
import { listMembers } from "../../etcd/membership/converge.ts";
import { proveEqualHashes } from "../../etcd/membership/hashes.ts";
import { EtcdMember, readTls } from "../../etcd/membership/member.ts";
import {
  addLearner,
  moveLeader,
  promote,
  removeMember,
  updatePeerUrls,
} from "../../etcd/membership/operations.ts";
import { judgeStep } from "../../etcd/membership/plan.ts";
import type { Step } from "../../etcd/membership/plan.ts";
import { surveyMembers } from "../../etcd/membership/survey.ts";
import { awaitInSync, listAlarms, syncState } from "../../etcd/membership/sync.ts";
import type { MemberId } from "../../etcd/membership/types.ts";
import { AccountingWriter, LIMIT, startCluster, within } from "./membership-fixture.ts";
import type { Bed } from "./membership-fixture.ts";

describe("three members are replaced by three others under writes", () => {
  let bed: Bed;
  let writer: AccountingWriter;
  const ids: Record<string, MemberId> = {};

  /** Judges a step on the real cluster as a move does. */
  async function refusals(step: Step, hashesEqual = true): Promise<readonly string[]> {
    const { members } = await surveyMembers(bed.cluster, bed.siteOf, LIMIT);
    const alarms = (await listAlarms(bed.cluster)).map(({ alarm }) => alarm);
    return judgeStep(members, step, { hashesEqual, alarms }).refusals;
  }

  beforeAll(async () => {
    bed = await startCluster();
    writer = new AccountingWriter(bed.store(bed.source));
    for (const member of bed.source) ids[member.name] = await bed.idOf(member);
  });

  afterAll(async () => {
    await writer.stop();
    await bed.stop();
  });

  test("two join as learners, one after the other, and become voters", async () => {
    for (const member of bed.destination.slice(0, 2)) {
      // etcd wants 5 s of connections to all voters; a refusal of it before that is waited out.
      expect(await refusals({ kind: "add-learner" })).toEqual([]);
      const id = await bed.join(member);
      ids[member.name] = id;
      expect(await addLearner(bed.cluster, member.peerUrl, within(5_000))).toBe(id);
      await awaitInSync(bed.cluster, id, LIMIT, within(120_000));
      expect(await refusals({ kind: "promote", id })).toEqual([]);
      await promote(bed.cluster, id, within(120_000));
      await promote(bed.cluster, id, within(5_000));
      await expect(addLearner(bed.cluster, member.peerUrl, within(5_000))).rejects.toMatchObject({
        refusal: "is-voter",
      });
    }
  });

  test("the third stays a learner, and no other learner is added beside it", async () => {
    const [, , d2] = bed.destination;
    ids["d2"] = await bed.join(d2!);
    await awaitInSync(bed.cluster, ids["d2"], LIMIT, within(120_000));
    await expect(addLearner(bed.cluster, "https://127.0.0.18:2380", within(5_000))).rejects.toMatchObject({
      refusal: "foreign-learner",
    });
    expect(await refusals({ kind: "add-learner" })).toEqual([
      `${ids["d2"]} is a learner, and one is allowed`,
    ]);
    expect(await refusals({ kind: "promote", id: ids["d2"] })).toEqual(["neither site could go on alone"]);
    await expect(moveLeader(bed.cluster, ids["d2"], within(5_000))).rejects.toMatchObject({
      refusal: "is-learner",
    });
    await expect(
      updatePeerUrls(bed.cluster, ids["d2"], ["https://127.0.0.18:2380"], within(5_000)),
    ).rejects.toMatchObject({ refusal: "is-learner" });
    const state = await syncState(bed.cluster, ids["d2"]);
    expect(state.learner).toBe(true);
    expect(state.indexRatio).toBeGreaterThan(0.9);
  });

  test("all voters hold the same data", async () => {
    const proof = await proveEqualHashes(bed.cluster, within(120_000));
    expect(new Set(proof.members)).toEqual(new Set(["s0", "s1", "s2", "d0", "d1"].map((name) => ids[name])));
    expect(await listAlarms(bed.cluster)).toEqual([]);
    // Of other data another hash.
    const isOther = async () => (await proveEqualHashes(bed.cluster, within(120_000))).hash !== proof.hash;
    await vi.waitUntil(isOther, { timeout: 240_000 });
  });

  test("a voter that holds other data is found", async () => {
    class OneBehind extends EtcdCluster {
      override async locate(signal?: AbortSignal) {
        const located = await super.locate(signal);
        const first = located.answered.find(({ status }) => !status.learner);
        const others = located.answered.filter((each) => each !== first);
        const { member } = first!;
        const hashKv: typeof member.hashKv = async (revision, options) =>
          await member.hashKv(revision - 1n, options);
        return {
          ...located,
          answered: [{ ...first!, member: Object.assign(Object.create(member), { hashKv }) }, ...others],
        };
      }
    }
    const endpoints = [...bed.source, ...bed.destination].map(({ endpoint }) => endpoint);
    using cluster = new OneBehind({ name: "etcd-main", endpoints, tls: readTls(bed.bed.tls) });
    await expect(proveEqualHashes(cluster, within(120_000))).rejects.toMatchObject({ refusal: "diverged" });
  });

  test("the leader moves, the third is promoted and the first of the source removed", async () => {
    writer.store = bed.store(bed.destination.slice(0, 2));
    const { from } = await moveLeader(bed.cluster, ids["d0"]!, within(120_000));
    expect(Object.entries(ids).find(([, id]) => id === from)?.[0]).toMatch(/^s/);
    expect(await moveLeader(bed.cluster, ids["d0"]!, within(5_000))).toEqual({
      from: ids["d0"],
      to: ids["d0"],
    });
    await expect(removeMember(bed.cluster, ids["d0"]!, within(5_000))).rejects.toMatchObject({
      refusal: "is-leader",
    });
    expect(await refusals({ kind: "remove", id: ids["s0"]! })).not.toEqual([]);
    const d2 = ids["d2"]!;
    expect(await refusals({ kind: "promote-to-even", id: d2 })).toEqual([]);
    const removals = vi.spyOn(EtcdMember.prototype, "memberRemove");
    await promote(bed.cluster, d2, within(10_000));
    expect(await refusals({ kind: "remove", id: ids["s0"]! })).toEqual([]);
    await removeMember(bed.cluster, ids["s0"]!, within(10_000));
    await removeMember(bed.cluster, ids["s0"]!, within(5_000));
    // Between the two neither site could go on alone: etcd takes the first removal, and no time goes by with asking again.
    expect(removals).toHaveBeenCalledTimes(1);
    removals.mockRestore();
  });

  test("the others are removed, and no acknowledged write is lost", async () => {
    for (const name of ["s1", "s2"]) {
      expect(await refusals({ kind: "remove", id: ids[name]! })).toEqual([]);
      await removeMember(bed.cluster, ids[name]!, within(10_000));
      await removeMember(bed.cluster, ids[name]!, within(5_000));
    }
    const { members } = await listMembers(bed.cluster);
    expect(members.map(({ name, learner }) => `${name} ${learner}`).toSorted()).toEqual([
      "d0 false",
      "d1 false",
      "d2 false",
    ]);
    expect((await proveEqualHashes(bed.cluster, within(120_000))).members).toHaveLength(3);
    await writer.stop();
    expect(await writer.lost()).toEqual([]);
    expect(writer.failures).toEqual([]);
    expect(writer.acknowledged.length).toBeGreaterThan(500);
  });
});
