import { converge } from "../../kubernetes/converge.ts";
import { managedResources } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import { deleteObject, listOrNone } from "./operations.ts";
import type { Operated, Waits } from "./operations.ts";

interface ManagedResource extends Operated {
  readonly spec: { readonly keepObjects?: boolean; readonly class?: string };
}

/**
 * Deletes a side's ManagedResources and keeps what they have made in the Shoot. All of them are told to keep their
 * objects before the first is deleted. Their controller is stopped on this side, so their finalizers are taken away:
 * it would do nothing more for one that keeps its objects (resources/v1alpha1, keepObjects).
 */
export async function deleteManagedResources(seed: ShootSeed, waits: Waits): Promise<void> {
  const path = managedResources(seed.namespace.name);
  const items = await listOrNone<ManagedResource>(seed.api, path, waits.signal);
  for (const { metadata } of items) {
    const kept = await converge<ManagedResource>(
      seed.api,
      `${path}/${metadata.name}`,
      ({ spec }) => (spec.keepObjects === true ? undefined : { spec: { keepObjects: true } }),
      waits.signal,
    );
    if (kept.spec.keepObjects !== true)
      throw new Error(`ManagedResource ${metadata.name} at ${seed.api.name} does not keep its objects`);
  }
  for (const { metadata } of items) await deleteObject(seed.api, { path, name: metadata.name }, waits, true);
}
