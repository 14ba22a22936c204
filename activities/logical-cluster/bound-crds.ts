import { isDeepStrictEqual } from "node:util";
import { boundCrdKey, clusterRange } from "../../etcd/keys.ts";
import type { Entry, Store } from "../../etcd/store.ts";
import { put, when } from "../../etcd/store.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { Session } from "./session.ts";

interface Binding {
  status?: { boundResources?: { schema?: { UID?: string } }[] };
}

interface Crd {
  metadata: { creationTimestamp?: string; [field: string]: unknown };
  spec?: unknown;
}

/**
 * Gives the destination the CRDs that serve the cluster's bound APIs. An APIBinding that arrives bound is not bound
 * again there, so without its CRD in `system:bound-crds` the API answers 404 or 500 for ever (kcp v0.32.3,
 * pkg/reconciler/apis/apibinding/conflict_checker.go). The CRD is shared by all bindings of its schema on the shard
 * and is never deleted by a move; kcp collects those that nobody uses.
 * @returns the schema UIDs that were missing.
 * @throws ApplicationFailure `Conflict` when the destination has another schema under the same UID.
 */
export async function seedBoundCrds(
  { from, to, cluster, destination }: Session,
  signal: AbortSignal,
): Promise<string[]> {
  const seeded: string[] = [];
  for (const uid of await boundSchemas(from.store, cluster)) {
    signal.throwIfAborted();
    const { entry: ours } = await from.store.get(boundCrdKey(from.store.prefix, uid));
    if (!ours) continue;
    const key = boundCrdKey(to.store.prefix, uid);
    const { entry: theirs } = await to.store.get(key);
    if (theirs) checkSameSchema(uid, to.name, ours, theirs);
    else if ((await destination.transact([when.modifiedAt(key, 0n)], [put(key, asNew(ours))])).succeeded) {
      seeded.push(uid);
    }
  }
  return seeded;
}

/** Schema UIDs of the APIs that a cluster has bound. */
export async function boundSchemas(store: Store, cluster: string): Promise<Set<string>> {
  const range = clusterRange(store.prefix, "apis.kcp.io/apibindings/customresources", cluster);
  const uids = new Set<string>();
  for await (const page of store.pages(range)) {
    for (const { value } of page) {
      const { status } = JSON.parse(value.toString()) as Binding;
      for (const { schema } of status?.boundResources ?? []) if (schema?.UID) uids.add(schema.UID);
    }
  }
  return uids;
}

/**
 * Dated now: kcp deletes a bound CRD that is older than 30 minutes and that no binding known to the shard refers to,
 * and the shard may learn of the binding a moment later (pkg/reconciler/apis/crdcleanup).
 */
function asNew({ value }: Entry): string {
  const crd = JSON.parse(value.toString()) as Crd;
  const creationTimestamp = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  return JSON.stringify({ ...crd, metadata: { ...crd.metadata, creationTimestamp } });
}

function checkSameSchema(uid: string, shard: string, ours: Entry, theirs: Entry): void {
  const [left, right] = [ours, theirs].map(({ value }) => JSON.parse(value.toString()) as Crd);
  if (isDeepStrictEqual(left?.spec, right?.spec)) return;
  throw failure("Conflict", {
    message: `bound CRD ${uid} has another schema at the destination`,
    site: shard,
    advice: "wait until both shards have the same revision of the APIExport, then start again",
  });
}
