import { expect, it } from "vitest";
import { dependsOnNothing } from "../../../kubernetes/kcp/side-by-side.ts";

const plain = Buffer.from('{"metadata":{"name":"x"}}');

it.each([
  "core/namespaces",
  "core/serviceaccounts",
  "rbac.authorization.k8s.io/clusterroles",
  "apiextensions.k8s.io/customresourcedefinitions",
  "apis.kcp.io/apibindings",
  "tenancy.kcp.io/workspaces/customresources",
  "kcp.io/things",
])("updates of %s stay in their order: others are derived from them", (family) => {
  expect(dependsOnNothing(family, plain)).toBe(false);
});

it.each(["core/configmaps", "core/events", "coordination.k8s.io/leases", "notkcp.io/things/customresources"])(
  "updates of %s have no order among others",
  (family) => {
    expect(dependsOnNothing(family, plain)).toBe(true);
    expect(dependsOnNothing(family, Buffer.from('{"metadata":{"deletionTimestamp":"now"}}'))).toBe(false);
  },
);
