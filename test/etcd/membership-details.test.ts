import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EtcdCluster } from "../../etcd/membership/cluster.ts";
import { listMembers } from "../../etcd/membership/converge.ts";
import { MembershipError } from "../../etcd/membership/errors.ts";
import { compareHashes, proveEqualHashes } from "../../etcd/membership/hashes.ts";
import { EtcdMember, readTls } from "../../etcd/membership/member.ts";
import { addLearner, promote, updatePeerUrls } from "../../etcd/membership/operations.ts";
import { awaitInSync } from "../../etcd/membership/sync.ts";
import { put } from "../../etcd/store.ts";
import { AccountingWriter, LIMIT, startCluster, startMutingProxy, within } from "./membership-fixture.ts";
import type { Bed } from "./membership-fixture.ts";

let bed: Bed;

beforeAll(async () => {
  bed = await startCluster();
});

afterAll(async () => await bed.stop());

describe("hashes", () => {
  test("compaction makes a revision incomparable, and the next attempt takes a newer one", async () => {
    const store = bed.store(bed.source);
    const writer = new AccountingWriter(store);
    const old = await store.head();
    while ((await store.head()) < old + 20n) await pause(20);
    await store.compact(old + 10n);
    expect(await compareHashes(bed.cluster, old)).toMatchObject({ outcome: "incomparable", newer: true });
    const future = (await store.head()) + 1_000_000n;
    expect(await compareHashes(bed.cluster, future)).toMatchObject({ outcome: "incomparable", newer: false });
    let compacted = 0n;
    class CompactedMeanwhile extends EtcdCluster {
      override async leader(signal?: AbortSignal) {
        const leader = await super.leader(signal);
        // Once, after the first revision is chosen and before its hashes are asked for.
        if (compacted === 0n) {
          compacted = (await store.transact([], [put("/registry/newer", "")])).revision;
          await store.compact(compacted);
        }
        return leader;
      }
    }
    const endpoints = bed.source.map(({ endpoint }) => endpoint);
    using cluster = new CompactedMeanwhile({ name: "etcd-main", endpoints, tls: readTls(bed.bed.tls) });
    const proof = await proveEqualHashes(cluster, within(120_000));
    expect(proof.revision).toBeGreaterThanOrEqual(compacted);
    expect(proof.members).toHaveLength(3);
    await writer.stop();
    expect(writer.failures).toEqual([]);
    store.close();
  });
});

describe("peer URLs", () => {
  test("are changed live and back, twice each, without a failed write", async () => {
    const store = bed.store(bed.source);
    const writer = new AccountingWriter(store);
    const follower = bed.source.find((member) => member.name === "s2")!;
    const id = await bed.idOf(follower);
    const exposed = await startMutingProxy(follower.peerUrl);
    for (const url of [exposed.endpoint, follower.peerUrl]) {
      await updatePeerUrls(bed.cluster, id, [url], within(10_000));
      await updatePeerUrls(bed.cluster, id, [url], within(10_000));
      const { members } = await listMembers(bed.cluster);
      expect(members.find((member) => member.id === id)?.peerUrls).toEqual([url]);
      await awaitInSync(bed.cluster, id, LIMIT, within(20_000));
    }
    await expect(
      updatePeerUrls(bed.cluster, id, [bed.source[0]!.peerUrl], within(10_000)),
    ).rejects.toMatchObject({ refusal: "peer-url-taken" });
    await writer.stop();
    await exposed.stop();
    expect(await writer.lost()).toEqual([]);
    expect(writer.failures).toEqual([]);
    store.close();
  });
});

describe("what ends a step early", () => {
  test("its signal, with the signal's reason", async () => {
    const abort = new AbortController();
    const learner = addLearner(bed.cluster, "https://127.0.0.18:2380", {
      signal: abort.signal,
      deadlineMs: 60_000,
      async permit() {
        abort.abort(new Error("asked to stop"));
        throw new MembershipError("etcd-main", "add-learner", "unhealthy", "not yet");
      },
    });
    await expect(learner).rejects.toThrow("asked to stop");
    expect(await bed.learners()).toEqual([]);
  });

  test("an answer from another cluster", async () => {
    const [endpoint] = bed.source.map((member) => member.endpoint);
    using stranger = new EtcdMember({ endpoint: endpoint!, tls: readTls(bed.bed.tls), clusterId: "1" });
    await expect(stranger.status()).rejects.toMatchObject({ failure: "foreign-cluster" });
  });

  test("no endpoint that answers", async () => {
    using nobody = new EtcdCluster({ name: "nobody", endpoints: ["http://127.0.0.1:1"] });
    await expect(listMembers(nobody)).rejects.toMatchObject({ failure: "unreachable" });
    const gaveUp = promote(nobody, "1", within(1_000));
    await expect(gaveUp).rejects.toThrow(/nobody: promote 1 was not done in 1000 ms/);
  });
});
