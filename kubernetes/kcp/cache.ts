import { setTimeout as delay } from "node:timers/promises";
import type { ApiServer } from "../api-server.ts";
import { ApiError } from "../api-server.ts";
import { merge, removeObject } from "../objects.ts";
import type { KubeObject } from "../objects.ts";

/** What kcp replicates (kcp v0.32.3, pkg/reconciler/cache/replication/replication_controller.go), of what a workspace may have. */
const REPLICATED = [
  "apis.kcp.io/v1alpha2/apiexports",
  "apis.kcp.io/v1alpha1/apiexportendpointslices",
  "apis.kcp.io/v1alpha1/apiresourceschemas",
  "apis.kcp.io/v1alpha1/apiconversions",
  "tenancy.kcp.io/v1alpha1/workspacetypes",
  "core.kcp.io/v1alpha1/logicalclusters",
  "rbac.authorization.k8s.io/v1/clusterroles",
  "rbac.authorization.k8s.io/v1/clusterrolebindings",
  "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
  "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
  "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
  "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
  "admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
  "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
];

/** Its shard takes this off again, which is one more event. */
const TOUCHED = "rehome.dev/touched";
/** A shard that has not seen yet that its object is gone makes the copy anew: nothing may come for this long. */
const QUIET_MS = 250;
const QUIET_LOOKS = 3;
/** An object that stays for a conflict is copied again each time. */
const MOST_LOOKS = 20;
const PAGE = 500;

/** @param resource as in {@link REPLICATED} */
export function copiesPath(shard: string, cluster: string, resource: string = REPLICATED[0]!): string {
  return `/services/cache/shards/${shard}/clusters/${cluster}/apis/${resource}`;
}

export interface ClearOptions {
  /** Throws where the attempt is not the one that may do this any more. */
  readonly check: () => Promise<void>;
  readonly signal: AbortSignal;
  /** The host's copies are not told again where none of the other shard's are found. */
  readonly onlyIfAny?: boolean;
}

interface Shards {
  /** Has left copies. */
  readonly gone: string;
  /** Has the cluster now. */
  readonly host: string;
}

/**
 * Takes away what a shard has left in kcp's cache of a cluster that it does not host any more, and has the host's copies told
 * again.
 *
 * A shard deletes its copy when its object goes, if it finds that. But the informers of the cache know objects by cluster
 * and name, not by shard (kcp-dev/apimachinery, pkg/cache/keyfunc.go). Where they have the host's copy in its place, it
 * stays: every shard that lists anew may take it for the object; and when the cluster comes back, it stands in the way of the new
 * copy, so that nobody finds an export any more. Where they have it, its deletion leaves them with neither. The host never tells
 * of its copy again by itself.
 * @returns whether no more came in the end
 */
export async function clearCopies(
  cache: ApiServer,
  cluster: string,
  { gone, host }: Shards,
  { check, signal, onlyIfAny = false }: ClearOptions,
): Promise<boolean> {
  const clear = async (): Promise<boolean> => {
    await check();
    const copies = await copiesOf(cache, gone, cluster, signal);
    for (const copy of copies) {
      signal.throwIfAborted();
      await removeObject(cache, `${copiesPath(gone, cluster, copy.resource)}/${copy.name}`);
      // At once: nobody knows the object meanwhile.
      await touch(cache, host, cluster, copy);
    }
    return copies.length > 0;
  };
  if (!(await clear()) && (onlyIfAny || (await copiesOf(cache, host, cluster, signal)).length === 0))
    return true;
  let quiet = 0;
  for (let looks = 0; quiet < QUIET_LOOKS && looks < MOST_LOOKS; looks += 1) {
    await delay(QUIET_MS, undefined, { signal });
    quiet = (await clear()) ? 0 : quiet + 1;
  }
  for (const copy of await copiesOf(cache, host, cluster, signal)) {
    signal.throwIfAborted();
    await touch(cache, host, cluster, copy);
  }
  return quiet === QUIET_LOOKS;
}

interface Copy {
  readonly resource: string;
  readonly name: string;
}

async function copiesOf(
  cache: ApiServer,
  shard: string,
  cluster: string,
  signal: AbortSignal,
): Promise<Copy[]> {
  const found = await Promise.all(
    REPLICATED.map(async (resource) => {
      const copies: Copy[] = [];
      for (let rest: string | undefined = ""; rest !== undefined;) {
        const path: string = `${copiesPath(shard, cluster, resource)}?limit=${PAGE}${rest}`;
        const page: Page | undefined = await cache.find<Page>({ path, signal });
        for (const { metadata } of page?.items ?? [])
          copies.push({ resource, name: encodeURIComponent(metadata.name) });
        const token = page?.metadata?.continue;
        rest = token ? `&continue=${encodeURIComponent(token)}` : undefined;
      }
      return copies;
    }),
  );
  return found.flat();
}

interface Page {
  readonly items?: readonly KubeObject[];
  readonly metadata?: { readonly continue?: string };
}

/** An object that its shard has not copied yet is copied by that shard, now that the way is free. */
async function touch(
  cache: ApiServer,
  shard: string,
  cluster: string,
  { resource, name }: Copy,
): Promise<void> {
  const patch = { metadata: { annotations: { [TOUCHED]: new Date().toISOString() } } };
  try {
    await merge(cache, `${copiesPath(shard, cluster, resource)}/${name}`, patch);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
  }
}
