import { ApiServer } from "../kubernetes/api-server.ts";

/** Requests in flight: enough to keep an API server busy, few enough to stay within its own limits. */
const concurrency = 32;
/** Payload of one object: with metadata about 1 KB in etcd, as a small custom resource has. */
const payload = "x".repeat(600);

/** Creates `count` ConfigMaps `filler-<n>` in namespace `default` of a logical cluster, through the front-proxy. */
export async function fillWithConfigMaps(
  frontProxyKubeconfig: string,
  cluster: string,
  count: number,
): Promise<void> {
  const frontProxy = new ApiServer("front-proxy", { kubeconfig: frontProxyKubeconfig, context: "base" });
  const path = `/clusters/${cluster}/api/v1/namespaces/default/configmaps`;
  let next = 0;
  const createSome = async () => {
    while (next < count) {
      const name = `filler-${next++}`;
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { payload } };
      await frontProxy.json({ method: "POST", path, body });
    }
  };
  await Promise.all(Array.from({ length: concurrency }, createSome));
}
