import type { ApiServer } from "../../kubernetes/api-server.ts";
import { apply, list } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { garden } from "./names.ts";
import type { GardenerLayout } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";

/** Secrets that Gardener cannot make again: authorities, signing keys, the key of the encryption at rest. */
const PERSIST = { persist: "true" };

interface Secret extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
  readonly type?: string;
}

/**
 * Writes the Secrets that must never be lost into the Shoot's ShootState in the garden, as gardenlet does before its
 * own migration (pkg/utils/gardener/shootstate): what a destination that goes wrong could be made anew from. Leaves
 * the state of machines and extensions, which gardenlet has put there, as it is.
 */
export async function persistSecrets(
  api: ApiServer,
  { project, shoot }: GardenerLayout,
  from: ShootSeed,
  signal: AbortSignal,
): Promise<number> {
  const path = from.namespace.core("secrets");
  const { items } = await list<Secret>(from.api, { path, labels: PERSIST }, signal);
  const secrets = items.map(({ metadata, data = {}, immutable, type }) => ({
    name: metadata.name,
    type: "secret",
    labels: metadata.labels,
    data: { data, ...(immutable !== undefined && { immutable }), type },
  }));
  const states = garden(project, "shootstates");
  const found = await api.find<KubeObject & { spec?: { gardener?: readonly { type: string }[] } }>({
    path: `${states}/${shoot}`,
    signal,
  });
  const others = (found?.spec?.gardener ?? []).filter(({ type }) => type !== "secret");
  await apply(api, states, {
    apiVersion: "core.gardener.cloud/v1beta1",
    kind: "ShootState",
    metadata: { name: shoot, namespace: project },
    spec: { gardener: [...secrets, ...others] },
  } as KubeObject);
  return secrets.length;
}
