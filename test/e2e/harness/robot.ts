import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { ApiServer } from "../../../kubernetes/api-server.ts";
import type { KubeconfigRef } from "../../../kubernetes/api-server.ts";
import type { Objects } from "./objects.ts";

export const SERVICE_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const rbac = (kind: string, name: string, rest: object) => ({
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind,
  metadata: { name },
  ...rest,
});

/** A service account of a workspace, `robot`, that may read and create ConfigMaps and nothing else. @returns a token of it */
export async function makeRobot(objects: Objects): Promise<string> {
  await objects.create(SERVICE_ACCOUNTS, { metadata: { name: "robot" } });
  const rules = [{ apiGroups: [""], resources: ["configmaps"], verbs: ["get", "create"] }];
  await objects.create(`${RBAC}/clusterroles`, rbac("ClusterRole", "robot", { rules }));
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "robot" };
  const subjects = [{ kind: "ServiceAccount", name: "robot", namespace: "default" }];
  await objects.create(
    `${RBAC}/clusterrolebindings`,
    rbac("ClusterRoleBinding", "robot", { roleRef, subjects }),
  );
  const answer = await objects.create(`${SERVICE_ACCOUNTS}/robot/token`, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: { expirationSeconds: 3600 },
  });
  return String(answer.status?.["token"]);
}

/** A server for somebody who has a bearer token and no other credential. */
export async function serverAs(token: string, reference: KubeconfigRef): Promise<ApiServer> {
  const known = new KubeConfig();
  known.loadFromFile(reference.kubeconfig);
  if (reference.context !== undefined) known.setCurrentContext(reference.context);
  const { server, caFile, caData } = known.getCurrentCluster()!;
  const cluster = {
    server: reference.server ?? server,
    ...(caFile !== undefined && { "certificate-authority": caFile }),
    ...(caData !== undefined && { "certificate-authority-data": caData }),
  };
  const dir = await mkdtemp(join(tmpdir(), "rehome-token-"));
  try {
    const kubeconfig = join(dir, "kubeconfig");
    await writeFile(
      kubeconfig,
      JSON.stringify({
        apiVersion: "v1",
        kind: "Config",
        "current-context": "it",
        clusters: [{ name: "it", cluster }],
        users: [{ name: "it", user: { token } }],
        contexts: [{ name: "it", context: { cluster: "it", user: "it" } }],
      }),
    );
    return new ApiServer("server", { kubeconfig });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
