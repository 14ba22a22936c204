import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import { awaitObject, removeObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { garden, seedsOfGarden } from "./names.ts";
import type { GardenerLayout } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import { OperationFailedError, listOrNone, operate } from "./operations.ts";
import type { Operated, Waits } from "./operations.ts";

/** Of the garden's BackupEntry (core/v1beta1/types_backupentry.go). */
interface BackupEntry extends Operated {
  readonly spec: { readonly bucketName: string; readonly seedName?: string };
  readonly status?: Operated["status"] & { readonly seedName?: string };
}

interface Task extends KubeObject {
  readonly status?: {
    readonly state?: string;
    readonly lastErrors?: readonly { readonly description?: string }[];
  };
}

function hasFailed({ status }: Task): boolean {
  return status?.state === "Failed" || status?.state === "Rejected";
}

/** Name of the bucket that a seed's backups go to: the uid of its Seed (botanist, backupentry.go). */
export async function bucketOf(api: ApiServer, seed: string, signal: AbortSignal): Promise<string> {
  const { metadata } = await api.json<KubeObject>({ path: `${seedsOfGarden}/${seed}`, signal });
  return metadata.uid!;
}

/**
 * Hands the Shoot's BackupEntry to the destination, as Gardener's own migration does: a new seed makes the old one's
 * gardenlet migrate it, and `restore` makes the new one's take it, with the new seed's bucket. Old backups stay where
 * they are.
 */
export async function handOverBackups(
  api: ApiServer,
  { project, namespace, seeds }: GardenerLayout,
  waits: Waits,
): Promise<void> {
  const path = garden(project, "backupentries");
  const items = await listOrNone<BackupEntry>(api, path, waits.signal);
  const bucketName = await bucketOf(api, seeds.destination, waits.signal);
  for (const { metadata } of items) {
    // `<technical id>--<uid of the Shoot>` (pkg/utils/gardener, GenerateBackupEntryName).
    if (!metadata.name.startsWith(`${namespace}--`)) continue;
    await moveEntry(api, { path, name: metadata.name }, seeds.destination, waits);
    await operate(api, { path, name: metadata.name }, "restore", waits, (entry) => {
      return (entry as BackupEntry).spec.bucketName === bucketName ? undefined : { spec: { bucketName } };
    });
  }
}

async function moveEntry(
  api: ApiServer,
  { path, name }: { readonly path: string; readonly name: string },
  seedName: string,
  { deadlineMs, signal }: Waits,
): Promise<void> {
  const entry = await converge<BackupEntry>(
    api,
    `${path}/${name}`,
    ({ spec }) => (spec.seedName === seedName ? undefined : { spec: { seedName } }),
    signal,
  );
  if (entry.status?.seedName === seedName) return;
  const migrated = (object: BackupEntry | undefined) => {
    const last = object?.status?.lastOperation;
    if (last?.type === "Migrate" && last.state === "Failed")
      throw new OperationFailedError(
        `${api.name}: BackupEntry ${name} cannot be migrated: ${last.description ?? ""}`,
      );
    const { seedName: at } = object?.status ?? {};
    // Whoever had it lets go of it, and the next one says so when it begins.
    const isFree = at === undefined || at === seedName;
    return (isFree && last?.state === "Succeeded") || `${last?.type} ${last?.state} at ${at}`;
  };
  const what = `BackupEntry ${name} has left its seed (${api.name})`;
  await awaitObject<BackupEntry>(api, { path, name }, migrated, { what, deadlineMs, signal });
}

/**
 * Has druid take a full snapshot into the bucket of this seed (EtcdOpsTask, onDemandSnapshot).
 * @param move names the task, so that a repeated step finds it.
 * @throws OperationFailedError
 */
export async function takeSnapshot(
  { api, namespace }: ShootSeed,
  etcd: string,
  move: string,
  { deadlineMs, signal }: Waits,
): Promise<void> {
  const path = `/apis/druid.gardener.cloud/v1alpha1/namespaces/${namespace.name}/etcdopstasks`;
  const name = `${etcd}-${move}`
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, "-")
    .slice(0, 63)
    .replace(/-+$/, "");
  const body = {
    apiVersion: "druid.gardener.cloud/v1alpha1",
    kind: "EtcdOpsTask",
    metadata: { name },
    spec: { etcdName: etcd, config: { onDemandSnapshot: { type: "full" } }, ttlSecondsAfterFinished: 86_400 },
  };
  const before = await api.find<Task>({ path: `${path}/${name}`, signal });
  // Of an attempt before: it stays as it ended.
  if (before && hasFailed(before)) {
    const { uid } = before.metadata;
    await removeObject(api, `${path}/${name}`, { preconditions: { uid } });
  }
  try {
    await api.json({ method: "POST", path: `${path}?fieldValidation=Strict`, body, signal });
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
  }
  const holds = (task: Task | undefined) => {
    const { state, lastErrors = [] } = task?.status ?? {};
    if (task && hasFailed(task))
      throw new OperationFailedError(
        `${api.name}: the snapshot ${name} is ${state}: ${lastErrors.map(({ description }) => description).join("; ")}`,
      );
    return state === "Succeeded" || (state ?? "not begun");
  };
  await awaitObject<Task>(api, { path, name }, holds, {
    what: `snapshot ${name} is taken`,
    deadlineMs,
    signal,
  });
}
