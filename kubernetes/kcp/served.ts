import type { ApiServer } from "../api-server.ts";
import { clusterPath } from "./logical-cluster.ts";
import { hasDeadContext } from "./probe.ts";
import { pollUntil } from "../wait.ts";

/** A resource that a CRD serves, of the cluster's own or bound through an APIBinding. */
export interface CustomResource {
  /** Empty for a bound resource of the core group. */
  readonly group: string;
  readonly plural: string;
  /** The served ones: each has a storage, and a watch cache, of its own. */
  readonly versions: readonly string[];
}

/** What a destination must have ready before clients are sent there. */
export interface Warmth {
  readonly cluster: string;
  /** `<group>/<resource>` of built-in resources, as in the etcd keys. */
  readonly builtIn: readonly string[];
  readonly custom: readonly CustomResource[];
  /** Revision of the destination's store that its watch caches must have reached. */
  readonly revision: bigint;
  /** Where a resource is answered neither at the destination nor here, there is nothing to wait for. */
  readonly origin: ApiServer;
  /** Default a minute, long enough for a shard under load to digest a copy. */
  readonly deadlineMs?: number;
}

const DIGEST_DEADLINE_MS = 60_000;
const LOOK_EVERY_MS = 100;
/** A cluster may have hundreds of resources, and the destination's other tenants want to be served meanwhile. */
const AT_ONCE = 16;
const EVERYWHERE = "system:admin";
/** Selects nothing. Without it a list is passed on to etcd while a cache is not ready (pkg/storage/cacher/delegator.go). */
const NOTHING = "labelSelector=rehome-warm%3Dx";

/**
 * Waits until a shard's API server is warm for a cluster that it is about to serve: the watch caches of all its
 * resources are there and as new as `revision`, so that the first requests after the switch neither hang nor are told
 * to come back. Asked with system:masters, which is served although the LogicalCluster is not there yet. Reads only.
 *
 * A custom resource has no storage before the first request for it, and while its watch cache begins, for about a
 * second, lists and watches are answered 429 (apiextensions-apiserver, customresource_handler.go; apiserver,
 * pkg/storage/cacher). So each version of each is asked for here, also of those that have no object yet.
 * @throws WaitError when a resource is not served in time.
 */
export async function awaitServed(server: ApiServer, warmth: Warmth, signal: AbortSignal): Promise<void> {
  const fresh = `?limit=1&${NOTHING}&resourceVersion=${warmth.revision}&resourceVersionMatch=NotOlderThan`;
  // A cancelled context answers every list with 504 and is healed by the switch only. A watch is ended by it at once,
  // but not before the storage is made, and it tells 429 from 200.
  const isDead = await hasDeadContext(server, warmth.cluster);
  const custom = isDead ? `?watch=true&timeoutSeconds=1&${NOTHING}` : fresh;
  const requests = [
    ...(await builtInPaths(server, warmth.builtIn)).map((path) => path + fresh),
    ...warmth.custom
      .flatMap((resource) => customPaths(warmth.cluster, resource))
      .map((path) => path + custom),
  ];
  const waiting = [...new Set(requests)];
  const next = async () => {
    for (let path = waiting.shift(); path !== undefined; path = waiting.shift())
      await awaitAnswer(server, path, warmth, signal);
  };
  const admission = isDead ? undefined : warmAdmission(server, warmth.cluster, signal);
  await Promise.all([admission, ...Array.from({ length: AT_ONCE }, next)]);
}

/**
 * The first write to a cluster waits for its policies and webhooks to be read, for each kind in steps of 100 ms (kcp v0.32.3,
 * pkg/admission; apiserver, pkg/admission/handler.go). A review of what oneself may do is admitted as any write is, and
 * stored nowhere.
 */
async function warmAdmission(server: ApiServer, cluster: string, signal: AbortSignal): Promise<void> {
  const path = clusterPath(cluster, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { nonResourceAttributes: { path: "/", verb: "get" } },
  };
  // Whatever the answer: a webhook of the tenant's may be the one that gives it, or hang, when all has been read.
  await server.request({ method: "POST", path, body, timeoutMs: 3_000, signal }).catch(() => undefined);
}

async function awaitAnswer(
  server: ApiServer,
  path: string,
  warmth: Warmth,
  signal: AbortSignal,
): Promise<void> {
  const { origin, deadlineMs = DIGEST_DEADLINE_MS } = warmth;
  const served = async () => {
    const { status, body } = await server.request({ path, timeoutMs: 10_000, signal });
    if (status === 200) return true;
    const seen = `${status} ${body.slice(0, 200)}`;
    if (status === 429 || status === 504) return seen;
    // Not yet digested, or an API that the origin does not serve either, such as one whose binding is broken.
    const there = await origin.request({ path, timeoutMs: 10_000, signal });
    return there.status === status || seen;
  };
  await pollUntil(`${server.name} serves ${path}`, served, { everyMs: LOOK_EVERY_MS, deadlineMs, signal });
}

function customPaths(cluster: string, { group, plural, versions }: CustomResource): string[] {
  const root = group === "" ? "/api" : `/apis/${group}`;
  return versions.map((version) => clusterPath(cluster, `${root}/${version}/${plural}`));
}

/**
 * A built-in resource has one watch cache for all clusters of the shard, so it is asked for in a cluster that every
 * shard has, that holds little, and whose context nobody cancels.
 */
async function builtInPaths(server: ApiServer, families: readonly string[]): Promise<string[]> {
  const paths = families.map(async (family) => {
    const [group = "", resource = ""] = family.split("/");
    if (group === "core") return [clusterPath(EVERYWHERE, `/api/v1/${resource}`)];
    const path = clusterPath(EVERYWHERE, `/apis/${group}`);
    const found = await server.find<{ versions?: { version: string }[] }>({ path });
    return (found?.versions ?? []).map(({ version }) => `${path}/${version}/${resource}`);
  });
  return (await Promise.all(paths)).flat();
}
