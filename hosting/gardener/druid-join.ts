import { converge } from "../../kubernetes/converge.ts";
import type { Bootstrap } from "../types.ts";
import { GO_ON, RECONCILE, findEtcd, isHeeded, isHeldOff, memberName } from "./druid.ts";
import type { Etcd } from "./druid.ts";
import { etcds } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import type { Waits } from "./operations.ts";
import { podOf } from "./peers.ts";

/**
 * Lets druid start the destination's member number `ordinal`: creates the Etcd with the first one, as a joiner of the
 * cluster that is there, and raises its replicas for each other one. Waits until the member's pod runs.
 */
export async function startMember(
  from: ShootSeed,
  to: ShootSeed,
  name: string,
  ordinal: number,
  { bootstrap, joins }: { readonly bootstrap: Bootstrap; readonly joins: () => Promise<Joins> },
  { signal }: Waits,
): Promise<void> {
  const path = etcds(to.namespace.name);
  const pod = podOf(name, ordinal);
  if (bootstrap.name !== memberName(to.name, pod)) {
    throw new Error(
      `druid will name the member ${memberName(to.name, pod)}, not ${bootstrap.name}: seeds need one name in the garden and in the configuration`,
    );
  }
  if ((await findEtcd(to, name, signal)) === undefined) {
    const source = await from.api.json<Etcd>({ path: `${etcds(from.namespace.name)}/${name}`, signal });
    const body = joiner(source, to.name, bootstrap, await joins());
    await to.api.json({ method: "POST", path: `${path}?fieldValidation=Strict`, body, signal });
  }
  await converge<Etcd>(
    to.api,
    `${path}/${name}`,
    (etcd) => {
      const { spec } = etcd;
      const peerURLs = spec.etcd.additionalAdvertisedURLs?.peerURLs;
      const members = peerURLs?.members ?? [];
      const isMember = members.some((member) => member.memberName === bootstrap.name);
      if (spec.replicas > ordinal && isMember && isHeeded(etcd)) return undefined;
      const own = { memberName: bootstrap.name, urls: [bootstrap.peerUrl] };
      const others = members.filter((member) => member.memberName !== bootstrap.name);
      return {
        // An attempt that took a member away may have died before it let druid go on.
        metadata: { annotations: isHeldOff(etcd) ? GO_ON : RECONCILE },
        spec: {
          replicas: Math.max(spec.replicas, ordinal + 1),
          etcd: {
            additionalAdvertisedURLs: { peerURLs: { overrideDefaultURL: true, members: [...others, own] } },
          },
        },
      };
    },
    signal,
  );
}

interface Joins {
  /** Of the members that are joined. */
  readonly clientUrls: readonly string[];
  /** For the destination's backups. */
  readonly bucket: string;
}

/** The destination's Etcd: as the source's, with other names and backups, and one member that joins. */
function joiner(
  { metadata, spec }: Etcd,
  prefix: string,
  { name, peerUrl, initialCluster }: Bootstrap,
  { clientUrls, bucket }: Joins,
): object {
  const urls = new Map<string, string[]>();
  for (const entry of initialCluster) {
    const [member = "", url = ""] = entry.split(/=(.*)/s);
    if (member !== name) urls.set(member, [...(urls.get(member) ?? []), url]);
  }
  const { store } = spec.backup;
  const members = [...urls].map(([member, peerUrls]) => ({ name: member, peerUrls }));
  return {
    apiVersion: "druid.gardener.cloud/v1alpha1",
    kind: "Etcd",
    metadata: { name: metadata.name, labels: metadata.labels, annotations: RECONCILE },
    spec: {
      ...spec,
      replicas: 1,
      memberNamePrefix: prefix,
      backup: { ...spec.backup, ...(store && { store: { ...store, container: bucket } }) },
      etcd: {
        ...spec.etcd,
        additionalAdvertisedURLs: {
          peerURLs: { overrideDefaultURL: true, members: [{ memberName: name, urls: [peerUrl] }] },
        },
        bootstrapWithExistingCluster: { members, clientEndpoints: clientUrls },
      },
    },
  };
}
