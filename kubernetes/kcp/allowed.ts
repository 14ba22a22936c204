import type { Difference } from "../../etcd/compare.ts";

const BINDINGS = "/apis.kcp.io/apibindings/";
const QUOTAS = "/core/resourcequotas/";
const ROOT_CA = /\/core\/configmaps\/[^/]+\/[^/]+\/kube-root-ca\.crt$/;

/**
 * The rule that allows a copied object to differ before the switch, because the destination's own controllers write to
 * it although its LogicalCluster is not there yet; undefined when no rule does.
 */
export function allowedDifference({ key, origin, destination }: Difference): string | undefined {
  if (!origin || !destination) return undefined;
  if (key.includes(QUOTAS)) return "status of ResourceQuota is counted by the destination";
  if (ROOT_CA.test(key)) return "kube-root-ca.crt holds the certificate authority of the shard";
  if (!key.includes(BINDINGS)) return undefined;
  const alike = withoutConditions(origin.value) === withoutConditions(destination.value);
  return alike ? "conditions of APIBinding are written by the destination" : undefined;
}

function withoutConditions(value: Buffer): string {
  const { metadata, spec, status } = JSON.parse(value.toString()) as {
    metadata?: Record<string, unknown>;
    spec?: unknown;
    status?: Record<string, unknown>;
  };
  return JSON.stringify([{ ...metadata, managedFields: null }, spec, { ...status, conditions: null }]);
}
