import { writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import type { Kcp, KcpShard } from "./kcp.ts";
import type { TemporalServer } from "./temporal.ts";

/** Writes the `rehome.yaml` that makes workers and the CLI work with these servers. All paths in it are as given to the servers. */
export async function writeRehomeConfig(file: string, temporal: TemporalServer, kcp: Kcp): Promise<string> {
  const content = {
    temporal: { address: temporal.address, namespace: temporal.namespace },
    kcp: {
      frontProxies: [{ kubeconfig: kcp.frontProxy.kubeconfig, context: "base" }],
      cacheServer: { kubeconfig: kcp.cache.kubeconfig, context: "base" },
      shards: Object.fromEntries(kcp.shards.map((shard) => [shard.name, describeShardSite(shard)])),
    },
  };
  await writeFile(file, stringify(content));
  return file;
}

/** A shard as `rehome.yaml` and `testbed.json` name it. */
export function describeShardSite(shard: KcpShard) {
  const { ca, cert, key } = shard.etcd.tls;
  return {
    kubeconfig: shard.kubeconfig,
    context: "base",
    etcd: { endpoints: shard.etcd.endpoints, prefix: shard.etcdPrefix, tls: { ca, cert, key } },
  };
}
