import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  boundCrdKey,
  clusterRange,
  isClusterId,
  keyFromBuffer,
  keyToBuffer,
  logicalClusterKey,
  ownKeys,
  parseKey,
  prefixEnd,
  prefixRange,
  successor,
  watchedRange,
} from "../../../etcd/keys.ts";
import type { Key } from "../../../etcd/keys.ts";

const PREFIX = "/registry";

/** Names as tenants may choose them, with those that an attacker would choose among them. */
const identity = fc.stringMatching(/^[0-9a-f]{64}$/);
const clusterId = fc.stringMatching(/^[0-9a-z]{16}$/);
const forged = fc.constantFrom(
  "customresources",
  "core",
  "configmaps",
  "a".repeat(64),
  "1abc2def3ghi4jkl",
  "root",
);
const name = fc.oneof(
  fc.stringMatching(/^[a-z0-9]([a-z0-9.:-]{0,20}[a-z0-9])?$/),
  forged,
  clusterId,
  identity,
);
const resource = fc.tuple(fc.oneof(fc.constant("core"), name), name);
const layout = fc.oneof(
  fc.constant(""),
  fc.constant("customresources/"),
  identity.map((id) => `${id}/`),
);

/** A key as an API server makes it, and the truth about it. */
const stored = fc
  .record({ resource, layout, cluster: clusterId, namespace: fc.option(name), name })
  // A built-in resource is never called like a marker; a marker in its place makes a layout of its own.
  .filter(({ resource: [group, kind] }) => !/^(customresources|[0-9a-f]{64})$/.test(kind) && group !== "")
  .map(({ resource: [group, kind], layout: marker, cluster, namespace, name: object }) => ({
    key: `${PREFIX}/${group}/${kind}/${marker}${cluster}/${namespace === null ? "" : `${namespace}/`}${object}`,
    family: `${group}/${kind}/${marker}`.replace(/\/$/, ""),
    cluster,
  }));

const contains = ({ start, end }: { start: Key; end: Key }, key: Key) => start <= key && key < end;

describe("keys", () => {
  it("are read as what they are, whatever tenants call their objects", () => {
    fc.assert(
      fc.property(stored, ({ key, family, cluster }) => {
        expect(parseKey(PREFIX, key)).toMatchObject({ family, cluster });
      }),
      { numRuns: 2_000 },
    );
  });

  it("belong to the range of their own cluster and of no other", () => {
    fc.assert(
      fc.property(stored, clusterId, ({ key, family, cluster }, other) => {
        expect(contains(clusterRange(PREFIX, family, cluster), key)).toBe(true);
        const others = [other, `${cluster}0`, cluster.slice(0, -1)].filter((id) => id !== cluster);
        for (const foreign of others) {
          expect(contains(clusterRange(PREFIX, family, foreign), key)).toBe(false);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("of a victim's cluster are not taken from a tenant who names things like it", () => {
    const victim = "1abc2def3ghi4jkl";
    const key = `${PREFIX}/core/configmaps/2attacker0000000/${victim}/loot`;
    // The rule of kcp v0.32.3: with five segments, either the third or the fourth is the cluster.
    const guessed = key.split("/").slice(2).slice(2, 4).includes(victim);
    expect(guessed).toBe(true);
    expect(parseKey(PREFIX, key)?.cluster).toBe("2attacker0000000");
    expect(contains(clusterRange(PREFIX, "core/configmaps", victim), key)).toBe(false);
  });

  it("survive the way to etcd and back byte for byte, and sort as etcd sorts", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), (a, b) => {
        const [left, right] = [Buffer.from(a), Buffer.from(b)];
        expect(keyToBuffer(keyFromBuffer(left)).equals(left)).toBe(true);
        const [x, y] = [keyFromBuffer(left), keyFromBuffer(right)];
        expect(x < y ? -1 : x > y ? 1 : 0).toBe(Math.sign(left.compare(right)));
      }),
    );
  });
});

describe("ranges", () => {
  it("hold exactly the keys with their prefix", () => {
    const bytes = fc
      .uint8Array({ minLength: 1, maxLength: 6 })
      .map((array) => keyFromBuffer(Buffer.from(array)));
    fc.assert(
      fc.property(bytes, bytes, (prefix, key) => {
        fc.pre(prefixEnd(prefix) !== "\0");
        expect(contains(prefixRange(prefix), key)).toBe(key.startsWith(prefix));
      }),
    );
  });

  it("continue right behind a key", () => {
    expect(contains({ start: successor("a"), end: "b" }, "a")).toBe(false);
    expect(contains({ start: successor("a"), end: "b" }, "a\0")).toBe(true);
  });

  it("watched for a move hold the registry and rehome's own keys, which no API server lists", () => {
    const own = ownKeys(PREFIX, "c");
    for (const key of [own.lock, own.pulse, own.cursor]) {
      expect(contains(watchedRange(PREFIX), key)).toBe(true);
      expect(contains(own.all, key)).toBe(true);
      expect(contains(prefixRange(`${PREFIX}/`), key)).toBe(false);
    }
    for (const key of [logicalClusterKey(PREFIX, "c"), boundCrdKey(PREFIX, "uid")]) {
      expect(contains(watchedRange(PREFIX), key)).toBe(true);
    }
  });
});

describe("ids of clusters", () => {
  it.each(["1abc2def3ghi4jkl", "root", "a1"])("%s may be one", (id) => expect(isClusterId(id)).toBe(true));
  it.each(["system:admin", "customresources", "a".repeat(64), "", "A", "a/b", "a b"])(
    "%s cannot be one",
    (id) => expect(isClusterId(id)).toBe(false),
  );
});
