import { CUSTOM_RESOURCES, boundCrdKey, clusterRange, isIdentity } from "../../etcd/keys.ts";
import { rangesOnEitherSide } from "../../etcd/verify.ts";
import type { Entry, Store } from "../../etcd/store.ts";
import { awaitServed } from "../../kubernetes/kcp/served.ts";
import type { CustomResource } from "../../kubernetes/kcp/served.ts";
import { WaitError } from "../../kubernetes/wait.ts";
import type { Shard } from "../../sites/kcp.ts";
import { boundSchemas } from "./bound-crds.ts";

/** Cluster of each shard whose CRDs serve `apibindings` and the like in every cluster. */
const SYSTEM_CRDS = "system:system-crds";

/** One of these conditions is enough. */
const SERVED = new Set(["NamesAccepted", "Established"]);
const BRIEFLY_MS = 3_000;

interface Crd {
  spec: {
    group: string;
    names: { plural: string };
    versions: { name: string; served: boolean }[];
  };
  status?: { conditions?: { type: string; status: string }[] };
}

/** Makes the destination ready to serve the cluster: see {@link awaitServed}. */
export async function warmUp(
  { from, to, cluster }: { readonly from: Shard; readonly to: Shard; readonly cluster: string },
  revision: bigint,
  options: { readonly signal: AbortSignal; readonly deadlineMs?: number },
): Promise<void> {
  const { signal, deadlineMs } = options;
  const families = (await rangesOnEitherSide(from.store, to.store, cluster)).map(({ family }) => family);
  const warmth = {
    cluster,
    builtIn: families.filter((family) => !isCustom(family)),
    custom: await customResources(to.store, cluster),
    revision,
    origin: from.api,
    ...(deadlineMs !== undefined && { deadlineMs }),
  };
  await awaitServed(to.api, warmth, signal);
}

/** As {@link warmUp}, and no error when there is not enough time: what is cold then costs its first client a second. */
export async function warmUpBriefly(
  shards: Parameters<typeof warmUp>[0],
  revision: bigint,
  signal: AbortSignal,
): Promise<void> {
  try {
    await warmUp(shards, revision, { signal, deadlineMs: BRIEFLY_MS });
  } catch (error) {
    if (!(error instanceof WaitError)) throw error;
  }
}

/** Families of custom resources end in a marker segment; a core-group CRD has it in the resource's place. */
function isCustom(family: string): boolean {
  const marker = family.slice(family.lastIndexOf("/") + 1);
  return marker === CUSTOM_RESOURCES || isIdentity(marker);
}

/** The resources of CRDs that a shard can serve in a cluster: kcp's own, the cluster's own, and those it has bound. */
async function customResources(store: Store, cluster: string): Promise<CustomResource[]> {
  const found: CustomResource[] = [];
  for (const owner of [SYSTEM_CRDS, cluster]) {
    const range = clusterRange(store.prefix, "apiextensions.k8s.io/customresourcedefinitions", owner);
    for await (const page of store.pages(range)) found.push(...page.flatMap(served));
  }
  for (const uid of await boundSchemas(store, cluster)) {
    const { entry } = await store.get(boundCrdKey(store.prefix, uid));
    if (entry) found.push(...served(entry));
  }
  return found;
}

/** Nothing for a CRD that no API server serves (apiextensions-apiserver, customresource_handler.go). */
function served({ value }: Entry): CustomResource[] {
  const { spec, status } = JSON.parse(value.toString()) as Crd;
  const isServed = status?.conditions?.some(
    (condition) => SERVED.has(condition.type) && condition.status === "True",
  );
  if (!isServed) return [];
  const versions = spec.versions.filter((version) => version.served).map(({ name }) => name);
  return [{ group: spec.group, plural: spec.names.plural, versions }];
}
