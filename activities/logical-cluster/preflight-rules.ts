import { ApiError } from "../../kubernetes/api-server.ts";
import { logicalClusterPath } from "../../kubernetes/kcp/logical-cluster.ts";
import type { Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";

/**
 * What an API server says when a webhook or a policy stands in the way (apiserver v0.36,
 * pkg/admission/plugin/webhook/errors/statuserror.go, webhook/generic/webhook.go, policy/validating/dispatcher.go).
 */
const BY_RULE =
  /admission webhook ".*" denied|failed calling webhook|ValidatingAdmissionPolicy '.*' .*denied/;

/**
 * Refuses a cluster whose own admission rules stand in the way of any change of its LogicalCluster object, as one for all
 * resources does whose webhook is dead. kcp's controllers are asked by such a rule too: after a fence that is taken off,
 * and after a return to a shard, they could not make the cluster Ready, and nobody would be served. Asked with a dry
 * run, of the object and of its status: nothing is written.
 */
export async function refuseOwnRules({ name, api }: Shard, cluster: string): Promise<void> {
  const path = logicalClusterPath(cluster);
  const body = { metadata: { annotations: { "rehome.dev/dry-run": new Date().toISOString() } } };
  for (const target of [path, `${path}/status`]) {
    try {
      await api.json({ method: "PATCH", path: `${target}?dryRun=All`, body });
    } catch (error) {
      if (!(error instanceof ApiError) || !BY_RULE.test(error.message)) throw error;
      throw failure("Refused", {
        message: `a rule of ${cluster} itself stands in the way of changes of its LogicalCluster, which kcp needs to serve it`,
        site: name,
        found: error.message,
        advice: "mend the webhook, or leave logicalclusters.core.kcp.io out of the rule",
      });
    }
  }
}
