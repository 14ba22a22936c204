import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { awaitObject, merge, removeObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { CLAIM, holderOf } from "../claim.ts";
import { ClaimedError } from "../types.ts";
import { deleteExtensions, requireLetGo } from "./extensions.ts";
import { KNOWN, forgetMachines } from "./machines.ts";
import { deleteManagedResources } from "./managed-resources.ts";
import { extensionOfSeed } from "./names.ts";
import { namespaceOf, namespacePath } from "./namespace.ts";
import type { ShootSeed } from "./namespace.ts";
import { deleteObject } from "./operations.ts";
import type { Waits } from "./operations.ts";

/** Marks the namespace as this move's. @throws ClaimedError, or ApiError when there is none. */
export async function claimNamespace(seed: ShootSeed, move: string, signal: AbortSignal): Promise<void> {
  const found = await namespaceOf(seed, signal);
  const holder = holderOf(found);
  if (holder === move) return;
  if (holder !== undefined) throw new ClaimedError(whatOf(seed), holder);
  const { resourceVersion } = found?.metadata ?? {};
  await merge(seed.api, namespacePath(seed.namespace.name), {
    metadata: { resourceVersion, annotations: { [CLAIM]: move } },
  });
}

export async function releaseNamespace(seed: ShootSeed, move: string, signal: AbortSignal): Promise<void> {
  const found = await namespaceOf(seed, signal);
  if (found === undefined || holderOf(found) !== move) return;
  const { resourceVersion } = found.metadata;
  await merge(seed.api, namespacePath(seed.namespace.name), {
    metadata: { resourceVersion, annotations: { [CLAIM]: null, [KNOWN]: null } },
  });
}

/** Makes the destination's namespace, as the source's is. @throws ClaimedError when it is there and not this move's. */
export async function makeNamespace(
  from: ShootSeed,
  to: ShootSeed,
  move: string,
  signal: AbortSignal,
): Promise<void> {
  const source = await namespaceOf(from, signal);
  const { labels, annotations } = source?.metadata ?? {};
  const body = {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: to.namespace.name, labels, annotations: { ...annotations, [CLAIM]: move } },
  };
  try {
    await to.api.json({ method: "POST", path: "/api/v1/namespaces", body, signal });
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
    const holder = holderOf(await namespaceOf(to, signal));
    if (holder !== move) throw new ClaimedError(whatOf(to), holder ?? "nobody");
  }
}

/**
 * Whether a seed may be cleared, asked before anything of it is stopped.
 * @returns false when there is nothing to clear. @throws ClaimedError, or Error for what the seed still answers for.
 */
export async function mayClear(seed: ShootSeed, move: string, signal: AbortSignal): Promise<boolean> {
  const namespace = await namespaceOf(seed, signal);
  if (namespace === undefined) return false;
  const holder = holderOf(namespace);
  if (holder !== move) throw new ClaimedError(whatOf(seed), holder ?? "nobody");
  await requireLetGo(seed, signal);
  return true;
}

/**
 * Deletes everything that one seed has of a control plane, and nothing that it stands for elsewhere: objects in the
 * Shoot, virtual machines and infrastructure stay. Its controllers must be stopped.
 */
export async function clearNamespace(seed: ShootSeed, move: string, waits: Waits): Promise<void> {
  const namespace = await namespaceOf(seed, waits.signal);
  if (namespace === undefined || !(await mayClear(seed, move, waits.signal))) return;
  await deleteManagedResources(seed, waits);
  await forgetMachines(seed, waits);
  await deleteExtensions(seed, waits);
  const { name } = seed.namespace;
  await deleteObject(seed.api, { path: extensionOfSeed("clusters"), name }, waits);
  await removeObject(seed.api, namespacePath(name), { preconditions: { uid: namespace.metadata.uid } });
  await awaitGone(seed.api, name, waits);
}

async function awaitGone(api: ApiServer, name: string, { deadlineMs, signal }: Waits): Promise<void> {
  const what = `namespace ${name} is gone at ${api.name}`;
  await awaitObject(api, { path: "/api/v1/namespaces", name }, isGone, { what, deadlineMs, signal });
}

function whatOf({ api, namespace }: ShootSeed): string {
  return `namespace ${namespace.name} at ${api.name}`;
}

function isGone(found: KubeObject | undefined): true | string {
  return found === undefined || "still there";
}
