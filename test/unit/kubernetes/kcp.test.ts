import { describe, expect, it } from "vitest";
import type { Entry } from "../../../etcd/store.ts";
import { allowedDifference } from "../../../kubernetes/kcp/allowed.ts";
import { cleanupOrder, copyStages, isLate, isLateOwner } from "../../../kubernetes/kcp/families.ts";
import {
  ANNOTATION,
  clusterPath,
  withHealing,
  withoutFence,
} from "../../../kubernetes/kcp/logical-cluster.ts";

const IDENTITY = "c".repeat(64);
const families = [
  "apis.kcp.io/apibindings/customresources",
  "apis.kcp.io/apiexports/customresources",
  "core/configmaps",
  "core/namespaces",
  "core/secrets",
  "core/serviceaccounts",
  `tenancy.kcp.io/workspaces/${IDENTITY}`,
].map((family) => ({ family }));

describe("the order of families", () => {
  it("brings service accounts before namespaces and token secrets", () => {
    const stages = copyStages(families.filter(({ family }) => !isLate(family))).map((stage) =>
      stage.map(({ family }) => family),
    );
    expect(stages).toEqual([
      ["apis.kcp.io/apibindings/customresources"],
      ["core/configmaps", "core/serviceaccounts"],
      ["core/secrets"],
      ["core/namespaces"],
    ]);
  });

  it("keeps child workspaces and exports for the cutover, and deletes them first", () => {
    const late = families.filter(({ family }) => isLate(family));
    expect(late).toHaveLength(2);
    expect(cleanupOrder(families).slice(0, 2)).toEqual(late);
    expect(cleanupOrder(families)).toHaveLength(families.length);
  });

  it("does not take a tenant's resource for one of kcp's", () => {
    expect(isLate("tenancy.kcp.io/workspacesx/customresources")).toBe(false);
    expect(isLate("evil.dev/apiexports/customresources")).toBe(false);
  });

  it("tells owners that come late by group and kind, in any version", () => {
    expect(isLateKind("tenancy.kcp.io/v1alpha1", "Workspace")).toBe(true);
    expect(isLateKind("apis.kcp.io/v1alpha2", "APIExport")).toBe(true);
    expect(isLateKind("core.kcp.io/v1alpha1", "LogicalCluster")).toBe(true);
    expect(isLateKind("apis.kcp.io/v1alpha2", "APIBinding")).toBe(false);
    expect(isLateKind("evil.dev/v1", "APIExport")).toBe(false);
    expect(isLateKind("v1", "ConfigMap")).toBe(false);
  });
});

function isLateKind(apiVersion: string, kind: string): boolean {
  return isLateOwner({ apiVersion, kind });
}

const entry = (key: string, value: unknown): Entry => ({
  key,
  value: Buffer.from(typeof value === "string" ? value : JSON.stringify(value)),
  createRevision: 1n,
  modRevision: 1n,
  lease: "0",
});

function differ(key: string, origin: unknown, destination: unknown) {
  return allowedDifference({ key, origin: entry(key, origin), destination: entry(key, destination) });
}

describe("allowed differences", () => {
  const binding = "/registry/apis.kcp.io/apibindings/customresources/c/b";

  it("are the conditions of an APIBinding, and nothing else of it", () => {
    const origin = { metadata: { name: "b" }, spec: { x: 1 }, status: { phase: "Bound", conditions: [1] } };
    expect(differ(binding, origin, { ...origin, status: { phase: "Bound", conditions: [2] } })).toBeDefined();
    const later = { ...origin, metadata: { name: "b", generation: 5 } };
    expect(differ(binding, { ...origin, metadata: { name: "b", generation: 3 } }, later)).toBeDefined();
    expect(differ(binding, origin, { ...later, spec: { x: 2 } })).toBeUndefined();
    expect(differ(binding, origin, { ...origin, spec: { x: 2 } })).toBeUndefined();
    expect(
      differ(binding, origin, { ...origin, status: { phase: "Binding", conditions: [1] } }),
    ).toBeUndefined();
  });

  it("are the labels of an APIBinding's claims, and no others", () => {
    const labels = { "internal.apis.kcp.io/export": "e" };
    const origin = { metadata: { name: "b", labels }, spec: {}, status: {} };
    const labelled = (more: object) => ({
      ...origin,
      metadata: { name: "b", labels: { ...more, ...labels } },
    });
    expect(differ(binding, origin, labelled({ "claimed.internal.apis.kcp.io/abc": "x" }))).toBeDefined();
    expect(differ(binding, origin, labelled({ mine: "x" }))).toBeUndefined();
  });

  it("are the shard's certificate authority, but not a tenant's ConfigMap of another name", () => {
    expect(differ("/registry/core/configmaps/c/ns/kube-root-ca.crt", "a", "b")).toBeDefined();
    expect(differ("/registry/core/configmaps/c/kube-root-ca.crt/x", "a", "b")).toBeUndefined();
    expect(differ("/registry/core/secrets/c/ns/kube-root-ca.crt", "a", "b")).toBeUndefined();
  });

  it("never are objects that one side lacks", () => {
    const origin = entry(binding, {});
    expect(allowedDifference({ key: binding, origin, destination: undefined })).toBeUndefined();
    expect(allowedDifference({ key: binding, origin: undefined, destination: origin })).toBeUndefined();
  });
});

describe("the LogicalCluster object", () => {
  const object = {
    metadata: {
      name: "cluster",
      uid: "u",
      finalizers: ["f"],
      annotations: { [ANNOTATION.migrating]: "root:m", [ANNOTATION.inactive]: "true", other: "kept" },
    },
    spec: { owner: { cluster: "root", name: "w", resource: "workspaces" } },
    status: { phase: "Ready", url: "u" },
  };

  it("goes to the destination without the marks of a fence and otherwise as it was", () => {
    const clean = withoutFence(object);
    expect(clean).toEqual({ ...object, metadata: { ...object.metadata, annotations: { other: "kept" } } });
  });

  it("heals with phase, label and shard, and keeps the rest", () => {
    expect(withHealing(object, "shard-1")).toMatchObject({
      metadata: {
        uid: "u",
        finalizers: ["f"],
        annotations: { other: "kept", [ANNOTATION.shard]: "shard-1" },
        labels: { "tenancy.kcp.io/phase": "Inactive" },
      },
      status: { phase: "Inactive", url: "u" },
    });
  });

  it("is found under a path that keeps colons and encodes everything else", () => {
    expect(clusterPath("root:team-a", "/api")).toBe("/clusters/root:team-a/api");
    expect(clusterPath("a/../b?", "/api")).toBe("/clusters/a%2F..%2Fb%3F/api");
  });
});
