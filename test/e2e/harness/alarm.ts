import { loadConfig } from "../../../sites/config.ts";
import type { ClientTls } from "../../../testbed/certificates.ts";
import { callEtcd } from "../../../testbed/etcd-gateway.ts";
import type { Bed, ShardName } from "./bed.ts";

/** As if the quota of a shard's etcd were used up: until disposed nothing can be put there, only deleted. */
export async function raiseAlarm(bed: Bed, shard: ShardName): Promise<AsyncDisposable> {
  const { endpoints, tls } = loadConfig(bed.testbed.rehomeConfig).kcp!.shards[shard]!.etcd;
  const alarm = { alarm: "NOSPACE", memberID: "0" };
  const call = async (action: string) =>
    await callEtcd(endpoints[0]!, tls as ClientTls, "/v3/maintenance/alarm", { ...alarm, action });
  await call("ACTIVATE");
  return { [Symbol.asyncDispose]: async () => void (await call("DEACTIVATE")) };
}
