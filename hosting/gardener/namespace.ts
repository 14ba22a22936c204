import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge, retryConflicts } from "../../kubernetes/converge.ts";
import { merge } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { noting } from "../claim.ts";
import { SeedNamespace } from "../statefulset/seed.ts";
import type { Workload } from "../statefulset/seed.ts";

/** The namespace of a Shoot's control plane in one seed. Replicas are set by the subresource made for it. */
export class ShootNamespace extends SeedNamespace {
  /** As in {@link SeedNamespace}; what is noted is written before the scale changes. */
  protected override async change(path: string, replicas: number, signal: AbortSignal): Promise<Workload> {
    const note = (workload: Workload) => noting(this.notesFor(workload, replicas));
    return await retryConflicts(async () => {
      const noted = await converge<Workload>(this.api, path, note, signal);
      if (noted.spec.replicas === replicas) return noted;
      const { resourceVersion } = noted.metadata;
      await merge(this.api, `${path}/scale`, { metadata: { resourceVersion }, spec: { replicas } });
      return await this.api.json<Workload>({ path, signal });
    }, signal);
  }
}

/** One seed with the control plane's namespace, and the Seed's name in the garden. */
export interface ShootSeed {
  readonly api: ApiServer;
  readonly name: string;
  readonly namespace: ShootNamespace;
}

export const namespacePath = (name: string) => `/api/v1/namespaces/${name}`;

export async function namespaceOf(
  { api, namespace }: ShootSeed,
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  return await api.find<KubeObject>({ path: namespacePath(namespace.name), signal });
}
