import type { ApiServer } from "../../kubernetes/api-server.ts";
import { merge } from "../../kubernetes/objects.ts";
import { retryConflicts } from "./operations.ts";
import { REPLICAS, SeedNamespace } from "../statefulset/seed.ts";
import type { Workload, WorkloadKind } from "../statefulset/seed.ts";

/** The namespace of a Shoot's control plane in one seed. Replicas are set by the subresource made for it. */
export class ShootNamespace extends SeedNamespace {
  /** As in {@link SeedNamespace}; the number that it had is kept before the scale changes. */
  override async scale(
    kind: WorkloadKind,
    name: string,
    replicas: number,
    signal: AbortSignal,
  ): Promise<Workload | undefined> {
    return await retryConflicts(async () => {
      let workload = await this.workload(kind, name, signal);
      if (workload === undefined || workload.spec.replicas === replicas) return workload;
      const path = `${this.workloads(kind)}/${name}`;
      const before = workload.spec.replicas ?? 1;
      if (replicas === 0 && workload.metadata.annotations?.[REPLICAS] !== String(before)) {
        const { resourceVersion } = workload.metadata;
        const annotations = { [REPLICAS]: String(before) };
        workload = await merge<Workload>(this.api, path, { metadata: { resourceVersion, annotations } });
      }
      const { resourceVersion } = workload.metadata;
      await merge(this.api, `${path}/scale`, { metadata: { resourceVersion }, spec: { replicas } });
      return await this.workload(kind, name, signal);
    }, signal);
  }
}

/** One seed with the control plane's namespace, and the Seed's name in the garden. */
export interface ShootSeed {
  readonly api: ApiServer;
  readonly name: string;
  readonly namespace: ShootNamespace;
}
