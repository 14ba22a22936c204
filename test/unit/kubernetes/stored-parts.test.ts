import { describe, expect, it } from "vitest";
import { allowedDifference } from "../../../kubernetes/kcp/allowed.ts";
import { withoutAnnotation } from "../../../kubernetes/kcp/stored-parts.ts";

const REPLICATE = "internal.kcp.io/replicate";

/** A length-delimited protobuf field; content of less than 16 KiB. */
function field(number: number, content: Buffer | string): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  return Buffer.from(value < 0x80 ? [value] : [(value & 0x7f) | 0x80, value >> 7]);
}

interface Role {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly managed?: string;
  readonly subject?: string;
  readonly uid?: string;
}

/** A ClusterRoleBinding as an API server stores it. */
function stored({ annotations = {}, managed = "m", subject = "anna", uid = "u" }: Role): Buffer {
  const metadata = Buffer.concat([
    field(1, "workspace-admin"),
    field(5, uid),
    // A number: generation.
    Buffer.from([7 * 8, 0]),
    ...Object.entries(annotations).map(([key, value]) =>
      field(12, Buffer.concat([field(1, key), field(2, value)])),
    ),
    field(17, managed),
  ]);
  const raw = Buffer.concat([field(1, metadata), field(2, subject)]);
  return Buffer.concat([Buffer.from("k8s\0"), field(1, "rbac"), field(2, raw)]);
}

const key = "/registry/rbac.authorization.k8s.io/clusterrolebindings/c/workspace-admin";
const entry = (value: Buffer) => ({ key, value, createRevision: 1n, modRevision: 1n, lease: "0" });
const rule = (left: Role, right: Role, at = key) =>
  allowedDifference({ key: at, origin: entry(stored(left)), destination: entry(stored(right)) });

describe("a stored ClusterRole or ClusterRoleBinding", () => {
  const origin: Role = { annotations: { [REPLICATE]: "apis.kcp.io,core.kcp.io", other: "a" }, managed: "x" };

  it("may differ in whom kcp replicates it for, also by having no such annotation", () => {
    expect(
      rule(origin, { ...origin, annotations: { [REPLICATE]: "apis.kcp.io", other: "a" } }),
    ).toBeDefined();
    expect(rule(origin, { ...origin, annotations: { other: "a" }, managed: "y" })).toBeDefined();
  });

  it.each<[string, Role]>([
    ["another annotation", { ...origin, annotations: { [REPLICATE]: "apis.kcp.io", other: "b" } }],
    ["a subject", { ...origin, subject: "eve" }],
    ["its uid", { ...origin, uid: "v" }],
  ])("may not differ in %s", (_what, destination) => {
    expect(rule(origin, destination)).toBeUndefined();
  });

  it("is no object of a tenant that is called like one", () => {
    const at = "/registry/core/configmaps/clusterroles/default/x";
    expect(rule(origin, { ...origin, annotations: { other: "a" } }, at)).toBeUndefined();
  });

  it("is not judged when it is stored in another way", () => {
    expect(withoutAnnotation(Buffer.from("k8s:enc:aescbc:v1:key:xxxx"), REPLICATE)).toBeUndefined();
    expect(withoutAnnotation(Buffer.from('{"kind":"ClusterRole"}'), REPLICATE)).toBeUndefined();
  });
});

function secret(type: string, data: Readonly<Record<string, string>>) {
  const entries = Object.entries(data).map(([name, value]) =>
    field(2, Buffer.concat([field(1, name), field(2, value)])),
  );
  const raw = Buffer.concat([field(1, field(1, "token")), ...entries, field(3, type)]);
  return entry(Buffer.concat([Buffer.from("k8s\0"), field(1, "v1"), field(2, raw)]));
}

describe("a stored Secret", () => {
  const at = "/registry/core/secrets/c/default/token";
  const differ = (type: string, left: Record<string, string>, right: Record<string, string>) =>
    allowedDifference({ key: at, origin: secret(type, left), destination: secret(type, right) });
  const token = "kubernetes.io/service-account-token";

  it("may differ in the shard's authority beside a service account's token", () => {
    expect(differ(token, { "ca.crt": "a", token: "t" }, { "ca.crt": "b", token: "t" })).toBeDefined();
  });

  it("may not differ in the token, nor in what a tenant calls ca.crt", () => {
    expect(differ(token, { "ca.crt": "a", token: "t" }, { "ca.crt": "b", token: "u" })).toBeUndefined();
    expect(differ("Opaque", { "ca.crt": "a" }, { "ca.crt": "b" })).toBeUndefined();
  });
});

function quota(hard: string, used: string, managed: string) {
  const metadata = Buffer.concat([field(1, "few"), field(17, managed)]);
  const raw = Buffer.concat([field(1, metadata), field(2, hard), field(3, used)]);
  return entry(Buffer.concat([Buffer.from("k8s\0"), field(1, "v1"), field(2, raw)]));
}

describe("a stored ResourceQuota", () => {
  const at = "/registry/core/resourcequotas/c/default/few";

  it("may differ in what is counted, and in nothing else", () => {
    const origin = quota("3", "1", "m");
    expect(allowedDifference({ key: at, origin, destination: quota("3", "2", "n") })).toBeDefined();
    expect(allowedDifference({ key: at, origin, destination: quota("4", "1", "m") })).toBeUndefined();
  });
});

function ruleOfStatus(at: string, left: object, right: object): string | undefined {
  const [origin, destination] = [left, right].map((status) =>
    entry(Buffer.from(JSON.stringify({ spec: { a: 1 }, status }))),
  );
  return allowedDifference({ key: `/registry/${at}`, origin, destination });
}

describe("kcp's own objects", () => {
  const slice = "apis.kcp.io/apiexportendpointslices/customresources/c/s";
  const apiExport = "apis.kcp.io/apiexports/customresources/c/e";

  it("may differ in what every shard writes into their status", () => {
    expect(ruleOfStatus(slice, { endpoints: [1], conditions: [] }, { conditions: [2] })).toBeDefined();
    const before = { identityHash: "h", conditions: [1] };
    expect(ruleOfStatus(apiExport, before, { conditions: [2], identityHash: "h" })).toBeDefined();
  });

  it("may not differ in an identity", () => {
    expect(ruleOfStatus(apiExport, { identityHash: "h" }, { identityHash: "i" })).toBeUndefined();
  });
});

function binding(accepted: object[], applied: object[], annotations: object = { of: "a tenant" }) {
  return {
    metadata: { name: "hats", annotations },
    spec: { permissionClaims: accepted },
    status: { appliedPermissionClaims: applied },
  };
}

describe("a stored APIBinding", () => {
  const at = "/registry/apis.kcp.io/apibindings/customresources/c/hats";
  const claim = { resource: "configmaps", verbs: ["*"] };
  const open = { ...claim, group: "", identityHash: "" };
  const differ = (origin: object, destination: object, of = at) =>
    allowedDifference({
      key: of,
      origin: entry(Buffer.from(JSON.stringify(origin))),
      destination: entry(Buffer.from(JSON.stringify(destination))),
    });

  it("may be stored with or without what a claim leaves empty", () => {
    expect(differ(binding([claim], [open]), binding([open], [claim]))).toBeDefined();
  });

  it.each([
    ["a claim's group", binding([claim], [claim]), binding([{ ...claim, group: "apps" }], [claim])],
    ["a claim's identity", binding([open], [open]), binding([{ ...open, identityHash: "h" }], [open])],
    ["what a claim allows", binding([claim], [claim]), binding([{ ...claim, verbs: [] }], [claim])],
    ["the claims that are applied", binding([claim], [claim]), binding([claim], [])],
    ["a tenant's annotation", binding([], []), binding([], [], {})],
    [
      "what a claim selects",
      binding([{ ...claim, selector: { matchLabels: { group: "" } } }], []),
      binding([{ ...claim, selector: { matchLabels: {} } }], []),
    ],
  ])("may not differ in %s", (_what, origin, destination) => {
    expect(differ(origin, destination)).toBeUndefined();
  });

  it("may have the export's extra annotations or not, which the export itself may not", () => {
    const extra = binding([], [], { of: "a tenant", "extra.apis.kcp.io/team": "blue" });
    expect(differ(binding([], []), extra)).toBeDefined();
    const apiExport = "/registry/apis.kcp.io/apiexports/customresources/c/hats";
    expect(differ(binding([], []), extra, apiExport)).toBeUndefined();
  });
});
