import { setTimeout as delay } from "node:timers/promises";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { merge } from "../../../kubernetes/objects.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";
import type { DriverState } from "./faults.ts";
import { follow, selfOf } from "./follow.ts";

interface Bound extends KubeObject {
  readonly metadata: KubeObject["metadata"] & { readonly generation: number };
  readonly spec: { readonly seedName?: string };
  readonly status?: {
    readonly seedName?: string;
    readonly lastOperation?: { readonly type: string; readonly state: string };
  };
}

const group = "/apis/core.gardener.cloud/v1beta1";
const operation = "gardener.cloud/operation";
const stepMs = 20;

/** Answers as the gardenlets of all seeds, for BackupEntries; of Shoots it only tells what they would do. */
export function driveGardenlets(garden: ApiServer, state: DriverState, signal: AbortSignal): Promise<void>[] {
  const entries = follow<Bound>(
    garden,
    `${group}/backupentries`,
    async (entry) => await driveBackupEntry(garden, entry, state),
    signal,
  );
  const shoots = follow<Bound>(
    garden,
    `${group}/shoots`,
    async ({ metadata, spec, status }) => {
      const moved = status?.seedName !== undefined && status.seedName !== spec.seedName;
      const ignored = metadata.annotations?.["shoot.gardener.cloud/ignore"] === "true";
      if (moved && !ignored) state.ordinaryMigrations.push(metadata.name);
    },
    signal,
  );
  return [entries, shoots];
}

/** As pkg/gardenlet/controller/backupentry: the old seed's lets go, and the new one's takes it when it is told to. */
async function driveBackupEntry(garden: ApiServer, entry: Bound, state: DriverState): Promise<void> {
  const { spec, status, metadata } = entry;
  const self = selfOf(`${group}/backupentries`, entry);
  const asked = metadata.annotations?.[operation];
  const last = status?.lastOperation;
  const set = async (type: string, text: string, seedName: string | null | undefined) => {
    const lastOperation = {
      type,
      state: text,
      description: text,
      progress: 50,
      lastUpdateTime: new Date().toISOString(),
    };
    await merge(garden, `${self}/status`, {
      status: { lastOperation, seedName, observedGeneration: metadata.generation },
    });
  };
  const type = status?.seedName !== undefined && status.seedName !== spec.seedName ? "Migrate" : "Restore";
  if (type === "Restore" && asked !== "restore") return;
  if (last?.type === type && last.state === "Failed") return;
  const key = `garden/backupentries/${metadata.name}/${type}`;
  await set(type, "Processing", type === "Restore" ? spec.seedName : status?.seedName);
  await delay(stepMs);
  const fault = await state.pass(key);
  if (fault !== undefined) await set(type, fault === "failed" ? "Failed" : "Error", status?.seedName);
  if (fault === "failed") return;
  state.done.push(key);
  await set(type, "Succeeded", type === "Restore" ? spec.seedName : null);
  if (type === "Restore") await merge(garden, self, { metadata: { annotations: { [operation]: null } } });
}
