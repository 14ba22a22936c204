import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { V1PersistentVolumeClaim } from "@kubernetes/client-node";
import { ifFound, strategicMergePatch } from "./api.ts";
import type { NodeApi } from "./api.ts";
import { follow } from "./follow.ts";
import { tell, wordsOf } from "./tell.ts";

/**
 * Folder of a claim: `<claims>/<namespace>/<name>/<uid>`. It lives as long as the
 * claim; a new claim of the same name begins empty.
 */
export function claimFolder(claims: string, { metadata }: V1PersistentVolumeClaim): string {
  return join(claims, metadata?.namespace ?? "default", metadata?.name ?? "", metadata?.uid ?? "");
}

/** Reports every claim as bound, and removes the folders of claims that are gone, also while nobody watched. */
export async function followClaims(api: NodeApi, claims: string): Promise<void> {
  const followed = await follow<V1PersistentVolumeClaim>(api.config, {
    path: "/api/v1/persistentvolumeclaims",
    list: () => api.core.listPersistentVolumeClaimForAllNamespaces(),
    onChange: (claim) => {
      bind(api, claim).catch((error: unknown) => tell(`claim ${claim.metadata?.name}: ${wordsOf(error)}`));
    },
    onDelete: (claim) => {
      const folder = claimFolder(claims, claim);
      rm(folder, { recursive: true, force: true }).catch((error: unknown) =>
        tell(`${folder}: ${wordsOf(error)}`),
      );
    },
  });
  const kept = new Set(followed.list().map((claim) => claimFolder(claims, claim)));
  for (const folder of await claimFolders(claims)) {
    if (!kept.has(folder)) await rm(folder, { recursive: true, force: true });
  }
}

async function claimFolders(claims: string): Promise<string[]> {
  const paths = await readdir(claims, { withFileTypes: true, recursive: false }).catch(() => []);
  const folders: string[] = [];
  for (const namespace of paths) {
    for (const name of await readdir(join(claims, namespace.name))) {
      const path = join(claims, namespace.name, name);
      folders.push(...(await readdir(path)).map((uid) => join(path, uid)));
    }
  }
  return folders;
}

async function bind(api: NodeApi, claim: V1PersistentVolumeClaim): Promise<void> {
  const { metadata, spec, status } = claim;
  if (status?.phase === "Bound" || metadata?.deletionTimestamp !== undefined) return;
  const { name = "", namespace = "" } = metadata ?? {};
  const bound = { phase: "Bound", accessModes: spec?.accessModes, capacity: spec?.resources?.requests };
  const body = { metadata: { uid: metadata?.uid }, status: bound };
  await ifFound(
    api.core.patchNamespacedPersistentVolumeClaimStatus({ name, namespace, body }, strategicMergePatch),
  );
}
