import { describe, expect, it } from "vitest";
import { encryptionOf, isPlain, kinshipOf, ownersOf, typeOf } from "../../../kubernetes/stored-object.ts";

/** A length-delimited protobuf field. */
function field(number: number, content: Buffer): Buffer {
  const length: number[] = [];
  for (let rest = content.length; ; rest = Math.floor(rest / 128)) {
    length.push(rest < 128 ? rest : (rest % 128) + 128);
    if (rest < 128) break;
  }
  return Buffer.concat([Buffer.from([number * 8 + 2, ...length]), content]);
}

/** A built-in object as API servers store it: the magic, then runtime.Unknown with the object inside. */
function protobuf(metadata: Buffer, apiVersion = "v1", kind = "Pod"): Buffer {
  const typeMeta = Buffer.concat([field(1, Buffer.from(apiVersion)), field(2, Buffer.from(kind))]);
  const raw = Buffer.concat([field(1, metadata), field(2, Buffer.from("spec"))]);
  return Buffer.concat([Buffer.from("k8s\0"), field(1, typeMeta), field(2, raw)]);
}

const named = field(1, Buffer.from("pod-1"));
const owner = (uid: string) =>
  field(13, Buffer.concat([field(3, Buffer.from("o")), field(4, Buffer.from(uid))]));
const owned = Buffer.concat([
  named,
  field(5, Buffer.from("me")),
  field(11, Buffer.alloc(300, 1)),
  owner("a"),
  owner("b"),
]);

describe("stored objects", () => {
  it("tell whether they have owners, in protobuf", () => {
    expect(kinshipOf(protobuf(owned))).toEqual({ uid: "me", owners: ["a", "b"] });
    expect(kinshipOf(protobuf(named))).toBeUndefined();
  });

  it("name their owners, in protobuf and in JSON, unless they are encrypted", () => {
    const shown = { apiVersion: "apis.kcp.io/v1alpha2", kind: "APIExport", name: "e", uid: "u" };
    const fields = Object.entries({ 1: shown.kind, 3: shown.name, 4: shown.uid, 5: shown.apiVersion });
    const reference = Buffer.concat(fields.map(([number, text]) => field(Number(number), Buffer.from(text))));
    expect(ownersOf(protobuf(Buffer.concat([named, field(13, reference)])))).toEqual([shown]);
    expect(ownersOf(Buffer.from(JSON.stringify({ metadata: { ownerReferences: [shown] } })))).toEqual([
      shown,
    ]);
    expect(ownersOf(protobuf(named))).toEqual([]);
    expect(ownersOf(Buffer.from('k8s:enc:aescbc:v1:key1:"ownerReferences"'))).toEqual([]);
  });

  it("are not taken in by data that looks like an owner", () => {
    const data = Buffer.concat([protobuf(named), field(13, Buffer.from("ownerReferences"))]);
    expect(kinshipOf(data)).toBeUndefined();
  });

  it("tell whether they have owners, in JSON", () => {
    const json = Buffer.from('{"metadata":{"uid":"me","ownerReferences":[{"uid":"u"}]}}');
    expect(kinshipOf(json)).toEqual({ uid: "me", owners: ["u"] });
    expect(kinshipOf(Buffer.from('{"metadata":{"name":"x"}}'))).toBeUndefined();
    expect(kinshipOf(Buffer.from('{"data":{"x":"\\"ownerReferences\\""}}'))).toBeUndefined();
  });

  it("tell their type", () => {
    expect(typeOf(protobuf(named, "apps/v1", "Deployment"))).toEqual({
      apiVersion: "apps/v1",
      kind: "Deployment",
    });
    expect(typeOf(Buffer.from('{"apiVersion":"a/v1","kind":"B"}'))).toEqual({
      apiVersion: "a/v1",
      kind: "B",
    });
    expect(typeOf(Buffer.from("k8s:enc:aescbc:v1:key1:..."))).toBeUndefined();
  });

  it("tell whether they are being deleted", () => {
    expect(isPlain(protobuf(owned))).toBe(true);
    expect(isPlain(protobuf(Buffer.concat([owned, field(9, Buffer.from([8, 1]))])))).toBe(false);
    expect(isPlain(Buffer.from('{"metadata":{"name":"x"}}'))).toBe(true);
    const deleted = '{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}';
    expect(isPlain(Buffer.from(deleted))).toBe(false);
    // It cannot be seen.
    expect(isPlain(Buffer.from("k8s:enc:aescbc:v1:key1:\0\x01"))).toBe(false);
    expect(isPlain(Buffer.from("k8s\0\xff\xff\xff"))).toBe(false);
  });

  it("tell how they are encrypted", () => {
    expect(encryptionOf(Buffer.from("k8s:enc:aescbc:v1:key1:\0\x01"))).toBe("k8s:enc:aescbc:v1:key1");
    expect(encryptionOf(protobuf(named))).toBeUndefined();
    expect(kinshipOf(Buffer.from("k8s:enc:aescbc:v1:key1:\0\x01"))).toBe("hidden");
  });

  it.each([Buffer.alloc(0), Buffer.from("k8s\0"), Buffer.from("k8s\0\xff\xff\xff"), Buffer.from("{")])(
    "that are broken are answered, not thrown over",
    (value) => {
      expect(typeOf(value)).toBeUndefined();
      expect(kinshipOf(value)).toBeUndefined();
    },
  );
});
