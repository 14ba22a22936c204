import { afterAll, beforeAll, expect, test } from "vitest";
import { removeAt } from "../../activities/control-plane/commit.ts";
import { openEtcd } from "../../activities/control-plane/etcd.ts";
import type { StretchedEtcd } from "../../activities/control-plane/etcd.ts";
import type { Session } from "../../activities/control-plane/session.ts";
import { listMembers } from "../../etcd/membership/converge.ts";
import { proveEqualHashes } from "../../etcd/membership/hashes.ts";
import { readTls } from "../../etcd/membership/member.ts";
import { promote } from "../../etcd/membership/operations.ts";
import { awaitInSync } from "../../etcd/membership/sync.ts";
import type { ClusterMember } from "../../testbed/etcd-cluster.ts";
import { LIMIT, startCluster, within } from "./membership-fixture.ts";
import type { Bed } from "./membership-fixture.ts";

let bed: Bed;
let etcd: StretchedEtcd;

const addressOf = ({ name, peerUrl, endpoint }: ClusterMember) => ({
  pod: name,
  peerUrl,
  clientUrl: endpoint,
});

beforeAll(async () => {
  bed = await startCluster();
  for (const member of bed.destination) {
    const id = await bed.join(member);
    await awaitInSync(bed.cluster, id, LIMIT, within(120_000));
    await promote(bed.cluster, id, within(120_000));
  }
  const session = {
    hosting: { credentials: async () => readTls(bed.bed.tls), requireClaim: async () => undefined },
    signal: new AbortController().signal,
    subject: { controlPlane: "a" },
  } as unknown as Session;
  const [source, destination] = [bed.source.map(addressOf), bed.destination.map(addressOf)];
  etcd = await openEtcd(session, { name: "main", source, destination, inner: {} }, LIMIT.maxLagRevisions);
});

afterAll(async () => {
  etcd?.[Symbol.dispose]();
  await bed?.stop();
});

test("a member of the source is not removed while another is down that may be needed", async () => {
  const [, second, third] = bed.source.map(addressOf);
  const down = bed.destination[1]!.server!;
  await removeAt(etcd, third!, 30_000);
  await down.stop();
  // What is left of a move after its first removal must not wait for a seed that is lost.
  await expect(proveEqualHashes(bed.cluster, within(4_000))).rejects.toThrow(/did not answer/);
  expect((await proveEqualHashes(bed.cluster, within(10_000), "in touch")).members).toHaveLength(4);
  // etcd itself would allow it: of five it needs three.
  await expect(removeAt(etcd, second!, 4_000)).rejects.toThrow(/3 of 4 voters would be healthy/);
  expect((await listMembers(bed.cluster)).members).toHaveLength(5);
  await down.start();
  await removeAt(etcd, second!, 30_000);
  expect((await listMembers(bed.cluster)).members).toHaveLength(4);
});
