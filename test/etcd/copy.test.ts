import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { copySnapshot } from "../../etcd/copy.ts";
import { carryLateWrites, settleLateWrite } from "../../etcd/late.ts";
import { boundCrdKey, logicalClusterKey, ownKeys } from "../../etcd/keys.ts";
import { removeKeys } from "../../etcd/remove.ts";
import { raiseRevision, writeTombstones } from "../../etcd/revisions.ts";
import { allRangesOf, rangesOf } from "../../etcd/scan.ts";
import { put, remove } from "../../etcd/store.ts";
import type { Entry, Store } from "../../etcd/store.ts";
import { isAt, readPosition, settlePosition, writePosition } from "../../etcd/position.ts";
import { pulse, startTail, tail } from "../../etcd/tail.ts";
import { countKeys, verify } from "../../etcd/verify.ts";
import { pastDeletions, watch } from "../../etcd/watch.ts";
import { CompactedError, LockedError, SupersededError } from "../../etcd/errors.ts";
import { isEarly } from "../../kubernetes/kcp/families.ts";
import { kinshipOf } from "../../kubernetes/stored-object.ts";
import { Token } from "../../etcd/token.ts";
import { Writer, forEachConcurrently } from "../../etcd/writer.ts";
import { PREFIX, dump, fill, never, startMove, twoStores } from "./fixture.ts";
import type { TwoStores } from "./fixture.ts";

const CLUSTER = "1abc2def3ghi4jkl";
const IDENTITY = "a".repeat(64);

/** Keys of the cluster in all three layouts, and the keys of neighbours that look like them. */
function tenants(objects: number) {
  const ours = [
    ...Array.from({ length: objects }, (_, i) => `core/configmaps/${CLUSTER}/default/cm-${i}`),
    `core/secrets/${CLUSTER}/default/token`,
    `example.dev/widgets/customresources/${CLUSTER}/default/w`,
    `example.dev/gadgets/${IDENTITY}/${CLUSTER}/g`,
    `example.dev/gadgets/${"b".repeat(64)}/${CLUSTER}/g`,
  ].map((key) => `${PREFIX}/${key}`);
  const foreign = [
    `core/configmaps/other/${CLUSTER}/cm`,
    `core/configmaps/other/default/${CLUSTER}`,
    `core/namespaces/other/${CLUSTER}`,
    `core/configmaps/${CLUSTER}0/default/cm`,
    `core/configmaps/${CLUSTER.slice(0, -1)}/default/cm`,
    `example.dev/widgets/customresources/other/${CLUSTER}/w`,
    `example.dev/gadgets/${IDENTITY}/other/${CLUSTER}`,
    `${CLUSTER}/things/customresources/other/default/t`,
    `example.dev/${CLUSTER}/customresources/other/default/t`,
  ].map((key) => `${PREFIX}/${key}`);
  return { ours, foreign };
}

const text = (keys: string[]) => keys.map((key) => [key, `value of ${key}`] as const);
const nothingAllowed = async () => undefined;

/** Keeps every transaction, to be made again. */
class RecordingWriter extends Writer {
  readonly calls: (() => Promise<{ succeeded: boolean }>)[] = [];
  /** Keys that were written together with the position. */
  readonly alone: string[] = [];
  readonly #before: ((key: string) => Promise<void>) | undefined;
  readonly #met = new Set<string>();

  /** @param before told of each key when it is written for the first time */
  constructor(origin: Token, destination: Token, before?: (key: string) => Promise<void>) {
    super(origin, destination);
    this.#before = before;
  }

  override async apply(...call: Parameters<Writer["apply"]>) {
    this.calls.push(async () => await super.apply(...call));
    const key = call[0]?.key;
    if (key !== undefined && call[2] !== undefined) this.alone.push(key);
    if (key !== undefined && !this.#met.has(key)) {
      this.#met.add(key);
      await this.#before?.(key);
    }
    return await super.apply(...call);
  }
}

const BUSY = `${PREFIX}/core/configmaps/${CLUSTER}/default/busy-`;

const BUSY_OBJECTS = 8;

/** A copied cluster whose origin has changed since: updates of a few objects, and what must keep its order between them. */
async function busyOrigin() {
  const names = Array.from({ length: BUSY_OBJECTS }, (_, i) => String(i));
  await fill(
    stores.origin,
    names.map((name) => [BUSY + name, "0"] as const),
  );
  const move = await startMove(stores, CLUSTER);
  await raiseRevision(move.destination, (await stores.origin.head()) + 100n, { signal: never });
  await copyAll(move);
  const noted = { origin: await stores.origin.head(), destination: await stores.destination.head() };
  const round = (number: number) => names.map((name) => `${name}=${number}`);
  const between = ["new=1", "new=2", "5=-", "5=102", "new=-"];
  for (const words of [...round(1), ...round(2), ...between, ...round(103)]) {
    const [name, value] = words.split("=") as [string, string];
    const key = BUSY + name;
    await stores.origin.transact([], [value === "-" ? remove(key) : put(key, value)]);
  }
  return { move, noted, written: await historyOf(stores.origin, noted.origin) };
}

/** Each of the rounds of {@link busyOrigin} sorted, since its updates may come in any order. */
function inRounds(changes: readonly string[]): string[] {
  const first = changes.slice(0, BUSY_OBJECTS);
  const second = changes.slice(BUSY_OBJECTS, 2 * BUSY_OBJECTS);
  const between = changes.slice(2 * BUSY_OBJECTS, -BUSY_OBJECTS);
  const last = changes.slice(-BUSY_OBJECTS);
  return [...first.toSorted(), ...second.toSorted(), ...between, ...last.toSorted()];
}

async function ofCluster(store: Store): Promise<[string, string][]> {
  return [...(await dump(store))].filter(([key]) => key.includes(`/${CLUSTER}/`));
}

/** What has become of the busy objects, in order: `<name>=<value>`, the value of a deletion is `-`. */
async function historyOf(store: Store, from: bigint): Promise<string[]> {
  const seen: string[] = [];
  const stop = new AbortController();
  const { revision } = await store.transact([], [put(`${PREFIX}.rehome/end`, "")]);
  const range = { start: `${PREFIX}.`, end: `${PREFIX}0` };
  for await (const changes of watch(store, { range, from: from + 1n, signal: stop.signal })) {
    for (const { type, entry } of changes) {
      if (entry.modRevision >= revision) stop.abort();
      const value = type === "Put" ? entry.value.toString() : "-";
      if (entry.key.startsWith(BUSY)) seen.push(`${entry.key.slice(BUSY.length)}=${value}`);
    }
  }
  return seen;
}

/** Dies of one of its transactions, and all those of its own that are under way beside it go on, as they would. */
class DyingWriter extends RecordingWriter {
  readonly #at: number;
  readonly #when: "before" | "after";

  constructor(origin: Token, destination: Token, at: number, when: "before" | "after") {
    super(origin, destination);
    this.#at = at;
    this.#when = when;
  }

  override async apply(...call: Parameters<Writer["apply"]>) {
    const isLast = this.calls.length === this.#at;
    if (this.calls.length > this.#at || (isLast && this.#when === "before")) {
      this.calls.push(async () => await super.apply(...call));
      throw new Error("the worker has died");
    }
    const answer = await super.apply(...call);
    if (isLast) throw new Error("the worker has died");
    return answer;
  }
}

let stores: TwoStores;
beforeAll(async () => {
  stores = await twoStores();
});
afterAll(() => stores.stop());
beforeEach(() => stores.wipe());

async function copyAll(move: Awaited<ReturnType<typeof startMove>>) {
  const revision = await pulse(move.origin);
  const ranges = await rangesOf(stores.origin, CLUSTER, revision);
  const copied = await copySnapshot({ store: stores.origin, revision }, move.writer, {
    cluster: CLUSTER,
    stages: [ranges],
    signal: never,
  });
  await writePosition(move.destination, revision);
  return { copied, revision, ranges };
}

/** A move of so many keys that has copied all of them. */
async function startCopied(count: number) {
  const { ours } = tenants(count);
  await fill(stores.origin, text(ours));
  const move = await startMove(stores, CLUSTER);
  return { ours, move, ...(await copyAll(move)) };
}

function ownedObject(uid: string, ...owners: string[]): string {
  return JSON.stringify({ metadata: { uid, ownerReferences: owners.map((owner) => ({ uid: owner })) } });
}

describe("copying a cluster", () => {
  it("writes owners before what they own, and at the end what does not show its owners", async () => {
    const at = (family: string, name: string) => `${PREFIX}/${family}/${CLUSTER}/default/${name}`;
    // Each family sorts before that of its owner.
    const rows = [
      [at("core/services", "owner"), '{"metadata":{"uid":"owner"}}'],
      [at("core/secrets", "hidden-1"), "k8s:enc:secretbox:v1:key1:\0"],
      [at("core/pods", "child"), ownedObject("child", "owner")],
      [at("core/secrets", "hidden-2"), "k8s:enc:secretbox:v1:key1:\x01"],
      [at("core/configmaps", "grandchild"), ownedObject("grandchild", "child", "owner")],
    ] as const;
    for (const row of rows) await fill(stores.origin, [row]);
    const move = await startMove(stores, CLUSTER);
    const revision = await pulse(move.origin);
    const stages = [await rangesOf(stores.origin, CLUSTER, revision)];
    await copySnapshot({ store: stores.origin, revision }, move.writer, {
      cluster: CLUSTER,
      stages,
      kinship: ({ value }) => kinshipOf(value),
      signal: never,
    });
    const copies = await stores.destination.getMany(rows.map(([key]) => key));
    const inOrder = [...copies.values()].toSorted((a, b) => Number(a.createRevision - b.createRevision));
    const names = inOrder.map(({ key }) => key.slice(key.lastIndexOf("/") + 1));
    expect(names.slice(0, 3)).toEqual(["owner", "child", "grandchild"]);
    expect(names.slice(3).toSorted()).toEqual(["hidden-1", "hidden-2"]);
  });

  it("carries every layout and nothing of tenants whose names look like the cluster's id", async () => {
    const { ours, foreign } = tenants(1_000);
    await fill(
      stores.origin,
      text([...ours, ...foreign, logicalClusterKey(PREFIX, CLUSTER), boundCrdKey(PREFIX, "u")]),
    );
    const move = await startMove(stores, CLUSTER);
    const { copied, ranges } = await copyAll(move);
    expect(copied.keys).toBe(ours.length);
    expect([...(await dump(stores.destination)).keys()].toSorted()).toEqual(ours.toSorted());
    const proof = await verify(stores.origin, stores.destination, {
      cluster: CLUSTER,
      signal: never,
      allowed: nothingAllowed,
    });
    expect(proof.unequal).toBe(0);
    expect(proof.families.reduce((sum, family) => sum + family.keys, 0)).toBe(ours.length);

    const deleted = await removeKeys(move.origin, { ranges, unchangedSince: proof.position, signal: never });
    expect(deleted).toBe(ours.length + 1);
    const left = [...(await dump(stores.origin)).keys()].toSorted();
    expect(left).toEqual([...foreign, boundCrdKey(PREFIX, "u")].toSorted());
  });

  it("writes only what is missing when it runs again", async () => {
    const { ours } = tenants(500);
    await fill(stores.origin, text(ours));
    await copyAll(await startMove(stores, CLUSTER));
    const again = await copyAll(await startMove(stores, CLUSTER));
    expect(again.copied).toMatchObject({ keys: ours.length, written: 0, deleted: 0 });
  });

  it("repairs what differs and deletes what is too much", async () => {
    const { ours, move } = await startCopied(300);
    await stores.destination.transact(
      [],
      [
        put(ours[5]!, "tampered"),
        remove(ours[6]!),
        put(`${PREFIX}/core/configmaps/${CLUSTER}/default/zzz`, "extra"),
      ],
    );
    const proof = await verify(stores.origin, stores.destination, {
      cluster: CLUSTER,
      signal: never,
      allowed: nothingAllowed,
    });
    expect(proof.unequal).toBe(3);
    expect((await copyAll(move)).copied).toMatchObject({ written: 2, deleted: 1 });
    expect(await dump(stores.destination)).toEqual(new Map(text(ours)));
  });

  it("makes no transaction that could come in a second time, after a later change", async () => {
    const { ours } = tenants(20);
    await fill(stores.origin, text(ours));
    const move = await startMove(stores, CLUSTER);
    await stores.destination.transact([], [put(ours[3]!, "different")]);
    const writer = new RecordingWriter(move.origin, move.destination);
    await copyAll({ ...move, writer });
    expect(writer.calls).toHaveLength(ours.length);
    for (const key of ours) await stores.destination.transact([], [put(key, "later")]);
    for (const again of writer.calls) expect(await again()).toMatchObject({ succeeded: false });
    expect([...(await dump(stores.destination)).values()]).toEqual(ours.map(() => "later"));
  });

  it("makes none that could bring back what has been deleted since, where it is told to heed the position", async () => {
    const { ours } = tenants(5);
    await fill(stores.origin, text(ours));
    const move = await startMove(stores, CLUSTER);
    const writer = new RecordingWriter(move.origin, move.destination);
    const revision = await settlePosition(move.destination, await pulse(move.origin));
    await copySnapshot({ store: stores.origin, revision }, writer, {
      cluster: CLUSTER,
      stages: [await rangesOf(stores.origin, CLUSTER, revision)],
      conditions: [isAt(move.destination, revision)],
      signal: never,
    });
    expect([...(await dump(stores.destination)).keys()].toSorted()).toEqual(ours.toSorted());
    for (const key of ours) await stores.origin.transact([], [remove(key)]);
    const until = await pulse(move.origin);
    await tail(stores.origin, move.writer, { cluster: CLUSTER, signal: never, until });
    expect(writer.calls).toHaveLength(ours.length);
    for (const again of writer.calls) expect(await again()).toMatchObject({ succeeded: false });
    expect(await dump(stores.destination)).toEqual(new Map());
  });

  it("prevails over who changes a key between its comparison and its writing", async () => {
    const { ours } = tenants(5);
    await fill(stores.origin, text(ours));
    const move = await startMove(stores, CLUSTER);
    const writer = new RecordingWriter(move.origin, move.destination, async (key) => {
      await stores.destination.transact([], [put(key, "in between")]);
    });
    expect((await copyAll({ ...move, writer })).copied.keys).toBe(ours.length);
    expect(writer.calls).toHaveLength(2 * ours.length);
    expect(await dump(stores.destination)).toEqual(new Map(text(ours)));
  });

  it("carries objects of 1.4 MB and binary values", async () => {
    const big = Buffer.alloc(1_400_000, 7);
    const binary = Buffer.from([0x6b, 0x38, 0x73, 0x00, 0xff, 0xfe, 0x00]);
    const keys = [0, 1, 2, 3].map((i) => `${PREFIX}/core/secrets/${CLUSTER}/default/big-${i}`);
    for (const key of keys) await stores.origin.transact([], [put(key, big)]);
    await stores.origin.transact([], [put(`${PREFIX}/core/pods/${CLUSTER}/default/p`, binary)]);
    await copyAll(await startMove(stores, CLUSTER));
    for (const key of keys) expect((await stores.destination.get(key)).entry?.value.equals(big)).toBe(true);
    const { entry } = await stores.destination.get(`${PREFIX}/core/pods/${CLUSTER}/default/p`);
    expect(entry?.value).toEqual(binary);
  });

  it("carries leases over, with at least the time that remained", async () => {
    const { ID } = await stores.origin.leases.leaseGrant({ TTL: 600, ID: 0 });
    const key = `${PREFIX}/core/events/${CLUSTER}/default/e`;
    await stores.origin.transact([], [put(key, "event", ID)]);
    await copyAll(await startMove(stores, CLUSTER));
    const { entry } = await stores.destination.get(key);
    expect(entry?.lease).not.toBe("0");
    const { TTL } = await stores.destination.leases.leaseTimeToLive({ ID: entry!.lease });
    expect(Number(TTL)).toBeGreaterThanOrEqual(590);
  });
});

describe("following changes", () => {
  it("applies puts, deletes and re-creations in order, one by one", async () => {
    const { ours } = tenants(50);
    await fill(stores.origin, text(ours));
    const move = await startMove(stores, CLUSTER);
    await raiseRevision(move.destination, (await stores.origin.head()) + 100n, { signal: never });
    const { revision } = await copyAll(move);
    const key = ours[0]!;
    for (const [target, value] of [
      [key, "second"],
      [key, undefined],
      [key, "third"],
      [ours[1]!, undefined],
      [`${PREFIX}/new.group/things/customresources/${CLUSTER}/t`, "new family"],
      [`${PREFIX}/core/configmaps/other/${CLUSTER}/cm`, "foreign"],
    ] as const) {
      await stores.origin.transact([], [value === undefined ? remove(target) : put(target, value)]);
    }
    const seen: string[] = [];
    const revisions: bigint[] = [];
    const stop = new AbortController();
    const before = await stores.destination.head();
    const until = await pulse(move.origin);
    const result = await tail(stores.origin, move.writer, { cluster: CLUSTER, signal: never, until });
    expect(result.position).toBe(until);
    expect(result.changes).toBe(5);
    const end = await pulse(move.destination);
    for await (const changes of watch(stores.destination, {
      range: { start: `${PREFIX}.`, end: `${PREFIX}0` },
      from: before + 1n,
      signal: stop.signal,
    })) {
      for (const { type, entry } of changes) {
        if (entry.modRevision >= end) stop.abort();
        if (entry.key === key) seen.push(type === "Put" ? entry.value.toString() : "deleted");
        if (entry.key.startsWith(`${PREFIX}/`)) revisions.push(entry.modRevision);
      }
    }
    expect(seen).toEqual(["second", "deleted", "third"]);
    expect(revisions).toHaveLength(5);
    expect(revisions.every((at) => at > revision)).toBe(true);
    expect((await dump(stores.destination)).has(`${PREFIX}/core/configmaps/other/${CLUSTER}/cm`)).toBe(false);
  });

  it("carries updates of different objects over side by side, and nothing else out of order", async () => {
    const { move, written, noted } = await busyOrigin();
    const writer = new RecordingWriter(move.origin, move.destination);
    const until = await pulse(move.origin);
    const options = { cluster: CLUSTER, signal: never, isFree: () => true, until };
    const { changes } = await tail(stores.origin, writer, options);
    expect(changes).toBe(written.length);
    expect(await ofCluster(stores.destination)).toEqual(await ofCluster(stores.origin));
    const seen = await historyOf(stores.destination, noted.destination);
    expect(seen).toHaveLength(written.length);
    expect(inRounds(seen)).toEqual(inRounds(written));
    expect(writer.alone).toEqual(["new", "new", "5", "5", "new"].map((name) => BUSY + name));
    const calls = writer.calls.splice(0);
    // Etcd's client may repeat a transaction whose answer was lost.
    await Promise.all(calls.map(async (again) => await again()));
    expect(await historyOf(stores.destination, noted.destination)).toEqual(seen);
  });

  it("carries one after the other what must keep its order", async () => {
    const { move, written, noted } = await busyOrigin();
    const writer = new RecordingWriter(move.origin, move.destination);
    const until = await pulse(move.origin);
    await tail(stores.origin, writer, { cluster: CLUSTER, signal: never, isFree: () => false, until });
    expect(await historyOf(stores.destination, noted.destination)).toEqual(written);
    expect(writer.alone).toHaveLength(written.length);
  });

  it("has all of a revision behind it, of which the last change is another cluster's", async () => {
    const { ours, foreign } = tenants(5);
    await fill(stores.origin, text([...ours, ...foreign]));
    const move = await startMove(stores, CLUSTER);
    await copyAll(move);
    // As a lease that expires, which the API server gives to what many clusters have written.
    const gone = [ours[0]!, foreign.find((key) => key > ours[0]!)!];
    const { revision } = await stores.origin.transact([], gone.map(remove));
    const until = await pulse(move.origin);
    await tail(stores.origin, move.writer, { cluster: CLUSTER, signal: never, until });
    expect((await readPosition(stores.destination, CLUSTER))?.position).toBe(revision);
    const proof = { cluster: CLUSTER, signal: never, allowed: nothingAllowed };
    expect(await verify(stores.origin, stores.destination, proof)).toMatchObject({ unequal: 0 });
  });

  it.each(["before", "after"] as const)(
    "goes on where an attempt died side by side, %s any of its transactions was made",
    async (when) => {
      for (let call = 0, died = true; died; call++) {
        await stores.wipe();
        const { move, written, noted } = await busyOrigin();
        const until = await pulse(move.origin);
        const dying = new DyingWriter(move.origin, move.destination, call, when);
        const options = { cluster: CLUSTER, signal: never, isFree: () => true, until };
        died = await tail(stores.origin, dying, options).then(
          () => false,
          () => true,
        );
        // What is recorded is a proof, in the middle too.
        const proof = { cluster: CLUSTER, signal: never, allowed: nothingAllowed };
        expect(await verify(stores.origin, stores.destination, proof)).toMatchObject({ unequal: 0 });
        const successor = await startMove(stores, CLUSTER);
        const later = { ...options, until: await pulse(successor.origin) };
        await tail(stores.origin, successor.writer, later);
        expect(await ofCluster(stores.destination)).toEqual(await ofCluster(stores.origin));
        expect(inRounds(await historyOf(stores.destination, noted.destination))).toEqual(inRounds(written));
        // One that was given up and wakes up again.
        const after = await dump(stores.destination);
        await Promise.all(dying.calls.map(async (again) => await again().catch(() => undefined)));
        expect(await dump(stores.destination)).toEqual(after);
      }
    },
  );

  it("leaves out the families that wait, and tells from where they may be read", async () => {
    const { ours, move } = await startCopied(5);
    const waits = `${PREFIX}/apis.kcp.io/apiexports/customresources/${CLUSTER}/one`;
    await stores.origin.transact([], [put(waits, "not yet")]);
    await stores.origin.transact([], [put(ours[0]!, "at once")]);
    const until = await pulse(move.origin);
    const options = { cluster: CLUSTER, signal: never, until, includes: isEarly };
    expect((await tail(stores.origin, move.writer, options)).changes).toBe(1);
    expect((await stores.destination.get(waits)).entry).toBeUndefined();
    expect((await stores.destination.get(ours[0]!)).entry?.value.toString()).toBe("at once");
    const position = await settlePosition(move.destination, until);
    expect(position).toBe(until);
    expect((await stores.origin.get(waits, { revision: position })).entry?.value.toString()).toBe("not yet");
    expect((await readPosition(stores.destination, CLUSTER))?.position).toBe(until);
  });

  it("records its position on a quiet shard too, before the origin compacts the history behind it", async () => {
    const { move, revision } = await startCopied(2);
    await using running = await startTail(stores.origin, move.writer, { cluster: CLUSTER, signal: never });
    const passed = async () => {
      const until = await pulse(move.origin);
      await running.reach(until);
      return until;
    };
    await passed();
    expect((await readPosition(stores.destination, CLUSTER))?.position).toBe(revision);
    const [now, minute] = [performance.now.bind(performance), 60_000];
    vi.spyOn(performance, "now").mockImplementation(() => now() + minute);
    try {
      const until = await passed();
      const recorded = async () => (await readPosition(stores.destination, CLUSTER))?.position;
      await expect.poll(recorded).toBe(until);
    } finally {
      vi.restoreAllMocks();
    }
  });

  it("does not raise the destination, however fast the origin counts: two moves would do so against each other", async () => {
    const { ours, move } = await startCopied(5);
    const noise = Array.from({ length: 3_000 }, (_, i) => i);
    await Promise.all(
      noise.map((i) => stores.origin.transact([], [put(`${PREFIX}/core/configmaps/other/ns/${i}`, "")])),
    );
    await stores.origin.transact([], [put(ours[0]!, "late")]);
    const { revision: deletedAt } = await stores.origin.transact([], [remove(ours[1]!)]);
    const until = await pulse(move.origin);
    await tail(stores.origin, move.writer, { cluster: CLUSTER, signal: never, until });
    expect(await stores.destination.head()).toBeLessThan(deletedAt);
    expect((await stores.destination.get(ours[0]!)).entry?.value.toString()).toBe("late");
    expect((await stores.destination.get(ours[1]!)).entry).toBeUndefined();
  });

  it("stops a zombie: an older attempt writes nothing after a newer one has begun", async () => {
    const { ours } = tenants(5);
    await fill(stores.origin, text(ours));
    const zombie = await startMove(stores, CLUSTER);
    await copyAll(zombie);
    await startMove(stores, CLUSTER);
    await stores.origin.transact([], [put(ours[0]!, "changed")]);
    const until = (await stores.origin.transact([], [put(`${PREFIX}.rehome/${CLUSTER}/pulse`, "1")]))
      .revision;
    await expect(
      tail(stores.origin, zombie.writer, { cluster: CLUSTER, signal: never, until }),
    ).rejects.toThrow(SupersededError);
    expect((await stores.destination.get(ours[0]!)).entry?.value.toString()).toBe(`value of ${ours[0]}`);
  });

  it("says so when its place in the history has been compacted", async () => {
    const { ours, move } = await startCopied(5);
    for (const key of ours) await stores.origin.transact([], [put(key, "changed")]);
    await compact(stores.origin);
    const until = await pulse(move.origin);
    await expect(
      tail(stores.origin, move.writer, { cluster: CLUSTER, signal: never, until }),
    ).rejects.toThrow(CompactedError);
  });
});

describe("a watch", () => {
  it("whose signal fires while its stream is opened ends", async () => {
    const stop = new AbortController();
    const range = { start: `${PREFIX}/`, end: `${PREFIX}0` };
    const next = watch(stores.origin, { range, from: 1n, signal: stop.signal }).next();
    stop.abort();
    expect(await next).toMatchObject({ done: true });
  });
});

describe("tombstones", () => {
  it("repeats deletions that a client may not have seen, also after a compaction", async () => {
    const { ours, foreign } = tenants(5);
    await fill(stores.origin, text([...ours, ...foreign]));
    await stores.origin.transact([], [remove(ours[0]!)]);
    await compact(stores.origin);
    await stores.origin.transact([], [remove(ours[1]!), remove(ours[2]!), remove(foreign[0]!)]);
    await stores.origin.transact([], [put(ours[2]!, "again")]);
    const move = await startMove(stores, CLUSTER);
    const { revision } = await copyAll(move);
    // The tail's to carry over.
    await stores.origin.transact([], [remove(ours[3]!)]);
    const from = (await stores.destination.head()) + 1n;
    const count = await writeTombstones(stores.origin, move.writer, {
      cluster: CLUSTER,
      until: revision,
      signal: never,
    });
    // The compaction kept the state at its revision, so the first deletion is history that nobody can resume from.
    expect(count).toBe(1);
    const stop = new AbortController();
    const end = await pulse(move.destination);
    const seen: string[] = [];
    const range = { start: `${PREFIX}.`, end: `${PREFIX}0` };
    for await (const changes of watch(stores.destination, { range, from, signal: stop.signal })) {
      for (const { type, entry } of changes) {
        if (entry.modRevision >= end) stop.abort();
        else seen.push(`${type} ${entry.key} ${entry.value.toString()}`);
      }
    }
    expect(seen).toEqual([`Put ${ours[1]} value of ${ours[1]}`, `Delete ${ours[1]} `]);
    expect((await stores.destination.get(ours[1]!)).entry).toBeUndefined();
  });
});

describe("past deletions", () => {
  it("are found all, also where they are more than etcd sends at once, and in families of which nothing is left", async () => {
    const at = (family: string, name: string) => `${PREFIX}/${family}/${CLUSTER}/default/${name}`;
    const names = Array.from({ length: 1_300 }, (_, i) => `o-${i}`);
    const kept = [at("core/configmaps", "stays"), `${PREFIX}/core/secrets/other/default/s`];
    const gone = [
      ...names.map((name) => at("core/configmaps", name)),
      at("core/secrets", "s"),
      at("vanished.dev/things/customresources", "t"),
      at(`vanished.dev/others/${IDENTITY}`, "t"),
      at("zzz.dev/last/customresources", "t"),
    ];
    const foreign = [`${PREFIX}/core/configmaps/other/default/cm`, `${PREFIX}/unknown.dev/a/other/b`];
    await fill(stores.origin, text([...kept, ...gone, ...foreign]));
    const from = (await stores.origin.head()) + 1n;
    // One revision each, among those of others.
    await forEachConcurrently([...gone, ...foreign], 32, async (key) => {
      await stores.origin.transact([], [put(kept[1]!, key)]);
      await stores.origin.transact([], [remove(key)]);
    });
    const until = await stores.origin.head();
    await stores.origin.transact([], [remove(kept[0]!)]);
    const ranges = await allRangesOf(stores.origin, CLUSTER);
    const found: string[] = [];
    for await (const { type, entry } of pastDeletions(stores.origin, {
      ranges,
      from,
      until,
      signal: never,
    })) {
      expect(type).toBe("Delete");
      found.push(entry.key);
    }
    // Others' only in a family of which nothing is left.
    expect(found.toSorted()).toEqual([...gone, foreign[1]!].toSorted());
    await compact(stores.origin);
    const compacted = pastDeletions(stores.origin, { ranges, from, until, signal: never });
    await expect(compacted.next()).rejects.toThrow(CompactedError);
  });
});

describe("deleting at the origin", () => {
  it("leaves a key that changed after the drain, and hands it over", async () => {
    const { ours, move, ranges } = await startCopied(450);
    const drained = await pulse(move.origin);
    await stores.origin.transact([], [put(ours[7]!, "late")]);
    const late: string[] = [];
    const deleted = await removeKeys(move.origin, {
      ranges,
      unchangedSince: drained,
      signal: never,
      onLate: async ({ key }) => late.push(key) === 0,
    });
    expect(deleted).toBe(ours.length - 1);
    expect(late).toEqual([ours[7]]);
    expect((await stores.origin.get(ours[7]!)).entry?.value.toString()).toBe("late");
  });
});

describe("late writes", () => {
  it("carries puts, creations and deletions over, once, and reports what has changed on both sides", async () => {
    const { ours, move } = await startCopied(10);
    const drained = await pulse(move.origin);
    const created = `${PREFIX}/core/configmaps/${CLUSTER}/default/new`;
    await stores.origin.transact(
      [],
      [put(ours[0]!, "late"), remove(ours[1]!), put(created, "late"), put(ours[2]!, "a")],
    );
    await stores.destination.transact([], [put(ours[2]!, "b")]);
    const late = await carryLateWrites(move.origin, move.destination, { drainedAt: drained, signal: never });
    expect(late).toMatchObject({ carried: 3, conflicts: [{ key: ours[2] }] });
    const now = await dump(stores.destination);
    expect([now.get(ours[0]!), now.get(ours[1]!), now.get(created), now.get(ours[2]!)]).toEqual([
      "late",
      undefined,
      "late",
      "b",
    ]);
    // The cleanup's own deletions must never be taken for late ones by a second attempt.
    await removeKeys(move.origin, {
      ranges: await rangesOf(stores.origin, CLUSTER),
      unchangedSince: drained,
      signal: never,
    });
    expect(
      await carryLateWrites(move.origin, move.destination, { drainedAt: drained, signal: never }),
    ).toEqual(late);
    expect(await dump(stores.destination)).toEqual(now);
  });

  it("are not carried over again when the attempt has died before it recorded them, and users have gone on", async () => {
    const { ours, move } = await startCopied(10);
    const drainedAt = await pulse(move.origin);
    const created = `${PREFIX}/core/configmaps/${CLUSTER}/default/new`;
    await stores.origin.transact([], [put(ours[0]!, "late"), remove(ours[1]!), put(created, "late")]);
    const carry = async () =>
      await carryLateWrites(move.origin, move.destination, { drainedAt, signal: never });
    expect(await carry()).toMatchObject({ carried: 3, conflicts: [] });
    await stores.origin.transact([], [remove(ownKeys(PREFIX, CLUSTER).late)]);
    await stores.destination.transact([], [put(ours[0]!, "newer"), put(ours[1]!, "again"), remove(created)]);
    const before = await dump(stores.destination);
    expect(await carry()).toMatchObject({ carried: 3, conflicts: [] });
    expect(await dump(stores.destination)).toEqual(before);
  });
});

const isShardsOwn = (_: Entry, { value }: Entry) => value.toString().startsWith("own");

describe("a late write of what each shard's own controllers write", () => {
  it("is neither carried over nor a conflict, whatever the destination's have written", async () => {
    const { ours, move } = await startCopied(10);
    const drainedAt = await pulse(move.origin);
    const [both, alone, mixed] = ours as [string, string, string];
    await stores.origin.transact([], [put(both, "own a"), put(alone, "own a"), put(mixed, "a")]);
    await stores.destination.transact([], [put(both, "own b"), put(mixed, "own b")]);
    const before = await dump(stores.destination);
    const late = await carryLateWrites(move.origin, move.destination, {
      drainedAt,
      isShardsOwn,
      signal: never,
    });
    expect(late).toMatchObject({ carried: 0, conflicts: [{ key: mixed }] });
    expect(await dump(stores.destination)).toEqual(before);
  });
});

describe("a late write that the cleanup meets", () => {
  it("is not carried over again after it was deleted at the destination", async () => {
    const { key, found, settle } = await lateCreation({ compacted: false });
    expect(found).toMatchObject({ carried: 1, historyLost: false });
    await stores.destination.transact([], [remove(key)]);
    expect(await settle()).toBeUndefined();
    expect((await stores.destination.get(key)).entry).toBeUndefined();
  });

  it("stays at the origin, and is told, when the history that it stood in is gone", async () => {
    const { key, found, settle } = await lateCreation({ compacted: true });
    expect(found).toMatchObject({ carried: 0, historyLost: true });
    expect(await settle()).toMatchObject({ key, destination: "absent" });
  });
});

describe("the lock", () => {
  it("keeps a second move of the same cluster out, and lets a second cluster in", async () => {
    await startMove(stores, CLUSTER, "first");
    await expect(startMove(stores, CLUSTER, "second")).rejects.toThrow(LockedError);
    await startMove(stores, "another", "second");
  });

  it("is not taken again by an attempt that wakes up after the move has ended", async () => {
    const move = await startMove(stores, CLUSTER, "first");
    await move.origin.release();
    await expect(Token.raise(stores.origin, CLUSTER, { move: "first", epoch: 99 })).rejects.toThrow(
      LockedError,
    );
    await expect(pulse(move.origin)).rejects.toThrow(SupersededError);
  });
});

describe("finding a cluster", () => {
  it("finds its keys in every family, also in one that has come since it was last looked for", async () => {
    const others = Array.from(
      { length: 5_000 },
      (_, i) => `${PREFIX}/core/configmaps/other${i % 50}/default/cm-${i}`,
    );
    await fill(stores.origin, text([...others, ...tenants(3).ours]));
    const found = await rangesOf(stores.origin, CLUSTER);
    expect(found.map(({ family, keys }) => [family, keys])).toEqual([
      ["core/configmaps", 3],
      ["core/secrets", 1],
      [`example.dev/gadgets/${IDENTITY}`, 1],
      [`example.dev/gadgets/${"b".repeat(64)}`, 1],
      ["example.dev/widgets/customresources", 1],
    ]);
    const late = [
      // Before, between and after those that are known, and where a key is a prefix of theirs.
      `admissionregistration.k8s.io/mutatingwebhookconfigurations/${CLUSTER}/hook`,
      `core/config/customresources/${CLUSTER}/default/one`,
      `example.dev/gadgets/${"a".repeat(63)}0/${CLUSTER}/default/one`,
      `wildwest.dev/cowboys/customresources/${CLUSTER}/default/one`,
    ];
    await fill(stores.origin, text(late.map((key) => `${PREFIX}/${key}`)));
    const again = await rangesOf(stores.origin, CLUSTER);
    const expected = [
      ...found.map(({ family }) => family),
      ...late.map((key) => key.slice(0, key.indexOf(`/${CLUSTER}/`))),
    ];
    expect(again.map(({ family }) => family)).toEqual(expected.toSorted());
  });

  it("counts more families than etcd takes operations in one transaction", async () => {
    const keys = Array.from(
      { length: 150 },
      (_, i) => `${PREFIX}/group-${i}.dev/things/customresources/${CLUSTER}/one`,
    );
    await fill(stores.origin, text(keys));
    const revision = await stores.origin.head();
    const ranges = await rangesOf(stores.origin, CLUSTER);
    await stores.origin.transact([], [remove(keys[0]!)]);
    const before = await countKeys(stores.origin, ranges, revision);
    const now = await countKeys(stores.origin, ranges);
    expect(before).toEqual(ranges.map(() => 1));
    expect(now.filter((count) => count === 0)).toHaveLength(1);
  });

  it("walks through no keys of others once it knows their families", async () => {
    const others = Array.from({ length: 5_000 }, (_, i) => [
      `${PREFIX}/core/configmaps/other${i % 50}/default/cm-${i}`,
      `${PREFIX}/core/secrets/other${i % 50}/default/secret-${i}`,
    ]);
    await fill(stores.origin, text([...others.flat(), ...tenants(3).ours]));
    const found = await rangesOf(stores.origin, CLUSTER);
    const own = found.reduce((sum, { keys }) => sum + keys, 0);
    const [count, read] = [vi.spyOn(stores.origin, "count"), vi.spyOn(stores.origin, "read")];
    try {
      expect(await rangesOf(stores.origin, CLUSTER)).toEqual(found);
      // etcd walks through as many keys as it counts, and reads none.
      const counts = await Promise.all(count.mock.results.map(({ value }) => value as Promise<number>));
      expect(counts.reduce((sum, keys) => sum + keys, 0)).toBe(own);
      expect(read).not.toHaveBeenCalled();
    } finally {
      vi.restoreAllMocks();
    }
  });
});

async function lateCreation(options: { compacted: boolean }) {
  const { move } = await startCopied(3);
  const drainedAt = await pulse(move.origin);
  const key = `${PREFIX}/core/configmaps/${CLUSTER}/default/new`;
  await stores.origin.transact([], [put(key, "late")]);
  if (options.compacted) {
    await pulse(move.origin);
    await compact(stores.origin);
  }
  const found = await carryLateWrites(move.origin, move.destination, { drainedAt, signal: never });
  const settle = async () => {
    const { entry } = await stores.origin.get(key);
    return await settleLateWrite(stores.origin, move.destination, entry!, { found, drainedAt });
  };
  return { key, found, settle };
}

async function compact(store: TwoStores["origin"]) {
  const revision = await store.head();
  await store.compact(revision);
}
