import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { V1Pod, V1Volume, V1VolumeProjection } from "@kubernetes/client-node";
import { ifFound } from "./api.ts";
import type { NodeApi } from "./api.ts";
import { claimFolder } from "./claims.ts";
import { fieldOf, MissingSourceError } from "./environment.ts";
import type { PodFacts } from "./environment.ts";
import { filesFromKeys, project } from "./projection.ts";
import type { ProjectedFile, Projection } from "./projection.ts";
import { configMapValues, secretValues } from "./sources.ts";

const defaultMode = 0o644;
/** What API servers extend to a year by default: nobody renews a token while its container runs. */
const tokenSeconds = 3_607;

export interface VolumeContext {
  readonly api: NodeApi;
  readonly pod: V1Pod;
  readonly facts: PodFacts;
  /** Folder of this pod, removed with it. */
  readonly podFolder: string;
  /** Folder of the node in which claims are kept. */
  readonly claimsFolder: string;
}

/**
 * Brings all volumes of a pod up to date with their sources.
 * @returns folder (or file) on the node by name of the volume
 * @throws MissingSourceError when a source that is not optional is absent
 */
export async function prepareVolumes(context: VolumeContext): Promise<Map<string, string>> {
  const sources = new Map<string, string>();
  for (const volume of context.pod.spec?.volumes ?? []) {
    sources.set(volume.name, await prepareVolume(volume, context));
  }
  return sources;
}

async function prepareVolume(volume: V1Volume, context: VolumeContext): Promise<string> {
  if (volume.hostPath !== undefined) return volume.hostPath.path;
  if (volume.persistentVolumeClaim !== undefined) {
    return await claim(volume.persistentVolumeClaim.claimName, context);
  }
  const folder = join(context.podFolder, "volumes", volume.name);
  if (volume.emptyDir !== undefined) await mkdir(folder, { recursive: true });
  else await project(folder, await filesOf(volume, context));
  return folder;
}

async function claim(name: string, { api, pod, claimsFolder }: VolumeContext): Promise<string> {
  const namespace = namespaceOf(pod);
  const found = await ifFound(api.core.readNamespacedPersistentVolumeClaim({ name, namespace }));
  if (found === undefined || found.metadata?.deletionTimestamp !== undefined) {
    throw new MissingSourceError(`persistentvolumeclaim "${name}" not found`);
  }
  const folder = claimFolder(claimsFolder, found);
  await mkdir(folder, { recursive: true });
  return folder;
}

/** Files of a volume that shows objects of the API. */
async function filesOf(volume: V1Volume, context: VolumeContext): Promise<Projection> {
  const { configMap, secret, downwardAPI, projected } = volume;
  const mode = (configMap ?? secret ?? downwardAPI ?? projected)?.defaultMode ?? defaultMode;
  if (secret !== undefined) {
    const { secretName, ...rest } = secret;
    return await projection({ secret: { ...rest, name: secretName ?? "" } }, mode, context);
  }
  if (configMap !== undefined) return await projection({ configMap }, mode, context);
  if (downwardAPI !== undefined) return await projection({ downwardAPI }, mode, context);
  if (projected === undefined) throw new Error(`volume ${volume.name} is of an unknown kind`);
  const files = new Map<string, ProjectedFile>();
  for (const source of projected.sources ?? []) {
    for (const [path, file] of await projection(source, mode, context)) files.set(path, file);
  }
  return files;
}

async function projection(
  source: V1VolumeProjection,
  mode: number,
  context: VolumeContext,
): Promise<Projection> {
  const { api, pod, facts } = context;
  const namespace = namespaceOf(pod);
  const { configMap, secret, downwardAPI, serviceAccountToken } = source;
  const named = configMap ?? secret;
  if (named !== undefined) {
    const read = configMap === undefined ? secretValues : configMapValues;
    const values = await read(api, namespace, named.name ?? "");
    if (values !== undefined) return filesFromKeys(values, named, mode);
    if (named.optional === true) return new Map();
    const kind = configMap === undefined ? "secret" : "configmap";
    throw new MissingSourceError(`${kind} "${named.name}" not found`);
  }
  if (serviceAccountToken !== undefined) {
    const data = Buffer.from(await serviceAccountTokenOf(context, serviceAccountToken.audience));
    return new Map([[serviceAccountToken.path, { data, mode: 0o600 }]]);
  }
  const items = downwardAPI?.items ?? [];
  return new Map(
    items.map(({ path, fieldRef, mode: own }) => {
      const text = fieldOf(pod, fieldRef?.fieldPath ?? "", facts);
      return [path, { data: Buffer.from(text), mode: own ?? mode }];
    }),
  );
}

/** A new token of the pod's service account: each start of a container renews it. */
async function serviceAccountTokenOf(
  { api, pod }: VolumeContext,
  audience: string | undefined,
): Promise<string> {
  const { name = "", uid = "" } = pod.metadata ?? {};
  const { status } = await api.core.createNamespacedServiceAccountToken({
    name: pod.spec?.serviceAccountName ?? "default",
    namespace: namespaceOf(pod),
    body: {
      spec: {
        audiences: audience === undefined ? [] : [audience],
        expirationSeconds: tokenSeconds,
        boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid },
      },
    },
  });
  return status?.token ?? "";
}

/** Names of the ConfigMaps and Secrets that volumes of the pod show, as `configmap/<name>` and `secret/<name>`. */
export function watchedSources(pod: V1Pod): Set<string> {
  const names = new Set<string>();
  for (const { configMap, secret, projected } of pod.spec?.volumes ?? []) {
    if (configMap?.name !== undefined) names.add(`configmap/${configMap.name}`);
    if (secret?.secretName !== undefined) names.add(`secret/${secret.secretName}`);
    for (const each of projected?.sources ?? []) {
      if (each.configMap?.name !== undefined) names.add(`configmap/${each.configMap.name}`);
      if (each.secret?.name !== undefined) names.add(`secret/${each.secret.name}`);
    }
  }
  return names;
}

export function namespaceOf(pod: V1Pod): string {
  return pod.metadata?.namespace ?? "default";
}
