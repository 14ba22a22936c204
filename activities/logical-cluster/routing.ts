import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import {
  ANNOTATION,
  annotate,
  clusterPath,
  logicalClusterPath,
} from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import { annotateChecked } from "../../kubernetes/objects.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { isDeleted } from "./deleted.ts";
import { readLogicalCluster } from "./session.ts";
import type { Session } from "./session.ts";

/** Written to and removed from the moved object, to prove that the destination takes writes. */
export const PROOF = "rehome.dev/proof-of-write";
type Sides = Pick<Session, "cluster" | "from" | "to">;

const ROUTING = { everyMs: 10, deadlineMs: 10 * 60_000 };
const FOUND = { everyMs: 100, deadlineMs: 60_000 };
/** Polls without success after which the destination's object is touched: about two seconds. */
const TOUCH_EVERY = 100;

/** Whether the object that a front-proxy shows is the destination's: both shards have one, with revisions of their own. */
async function servesDestination(proxy: ApiServer, { to, cluster }: Sides): Promise<true | string> {
  const { status, body } = await proxy.request({ path: logicalClusterPath(cluster), timeoutMs: 5_000 });
  if (status !== 200) return `${status} ${body.slice(0, 200).trim()}`;
  const stored = await readLogicalCluster(to, cluster);
  const { resourceVersion } = (JSON.parse(body) as LogicalCluster).metadata;
  return (
    resourceVersion === String(stored?.entry.modRevision) || `resourceVersion ${String(resourceVersion)}`
  );
}

/**
 * Waits until every front-proxy shows the destination's object, or the cluster is deleted.
 * @param meanwhile is called each time that a front-proxy has been asked in vain
 */
export async function awaitRouted(
  site: KcpSite,
  session: Sides,
  signal: AbortSignal,
  meanwhile: () => Promise<void> = async () => undefined,
): Promise<void> {
  await Promise.all(
    site.frontProxies.map(async (proxy) => {
      let asked = 0;
      const served = async () => {
        const seen = await servesDestination(proxy, session);
        if (seen === true || (await isDeleted(session, site.frontProxy))) return true;
        await meanwhile();
        // A front-proxy that has listed the origin anew waits for another event of the destination's object.
        if (++asked % TOUCH_EVERY === 0) await touch(session);
        return seen;
      };
      const what = `${proxy.name} serves ${session.cluster} from ${session.to.name}`;
      await pollUntil(what, served, { ...ROUTING, signal });
    }),
  );
}

/** An update of the object at the destination, so that every front-proxy points there whatever it saw before. */
export async function touch({ to, cluster }: Pick<Session, "to" | "cluster">): Promise<void> {
  await annotate(to.api, cluster, PROOF, new Date().toISOString());
  await annotate(to.api, cluster, PROOF, null);
}

/** Waits until every front-proxy serves the cluster by its id and by its path. */
export async function awaitFound(
  site: KcpSite,
  { path, ...sides }: Sides & { readonly path: string },
  signal: AbortSignal,
): Promise<void> {
  for (const proxy of site.frontProxies) {
    for (const name of [sides.cluster, path]) {
      const served = async () => {
        const { status, body } = await proxy.request({ path: logicalClusterPath(name), timeoutMs: 5_000 });
        if (status === 200 || (await isDeleted(sides, site.frontProxy))) return true;
        // A front-proxy that has seen the cluster go from one shard, and took that for its place, has forgotten id and path.
        await touch(sides);
        await changeOwner(site.frontProxy, sides.cluster, { [PROOF]: new Date().toISOString() });
        await changeOwner(site.frontProxy, sides.cluster, { [PROOF]: null });
        return `${status} ${body.slice(0, 200).trim()}`;
      };
      await pollUntil(`${proxy.name} serves ${name}`, served, { ...FOUND, signal });
    }
  }
}

/**
 * The owner, the Workspace object, must name the destination's shard: its deletion asks that shard whether the cluster
 * is gone, and a wrong name would leak the cluster (kcp v0.32.3, workspace_reconcile_deletion.go). The destination's
 * controller writes it too, but not where the switch had to name the shard in the LogicalCluster object already.
 */
export async function nameShardInOwner(
  proxy: ApiServer,
  cluster: string,
  shard: string,
  check: () => Promise<void>,
): Promise<void> {
  await changeOwner(proxy, cluster, { [ANNOTATION.shard]: shard }, check);
}

/**
 * Sets annotations of the Workspace object, or removes them with null. Nothing is written where nothing changes.
 * @param check throws where the attempt is not the one that may do this any more
 */
async function changeOwner(
  proxy: ApiServer,
  cluster: string,
  annotations: Readonly<Record<string, string | null>>,
  check: () => Promise<void> = async () => undefined,
): Promise<void> {
  const { spec } = await proxy.json<LogicalCluster>({ path: logicalClusterPath(cluster) });
  const owner = spec?.owner;
  if (owner?.resource !== "workspaces") return;
  const path = clusterPath(owner.cluster, `/apis/tenancy.kcp.io/v1alpha1/workspaces/${owner.name}`);
  try {
    await annotateChecked(proxy, path, annotations, check);
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "NotFound")) throw error;
  }
}
