import { isPlain } from "../stored-object.ts";
import { isOneOf } from "./families.ts";

/**
 * What controllers derive other objects from. They run at the destination too, before the switch: from an APIBinding come labels of
 * what it claims, from labels of ClusterRoles the rules of another (kcp v0.32.3, pkg/reconciler/apis/permissionclaimlabel,
 * pkg/server/controllers.go). What is derived must be written after, as the origin had it.
 */
const INPUTS = ["core/namespaces", "core/serviceaccounts", "apiextensions.k8s.io/customresourcedefinitions"];
const INPUT_GROUPS = /^(rbac\.authorization\.k8s\.io|([^/]+\.)?kcp\.io)\//;

/**
 * Whether an update of an object has no order among those of others. One that is being deleted has: a garbage collector takes it
 * as the word to delete what it owns, and an object may have left it just before.
 */
export function dependsOnNothing(family: string, value: Buffer): boolean {
  return !INPUT_GROUPS.test(family) && !isOneOf(INPUTS, family) && isPlain(value);
}
