import { setTimeout as delay } from "node:timers/promises";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { merge } from "../../../kubernetes/objects.ts";
import type { KubeObject } from "../../../kubernetes/objects.ts";
import type { DriverState } from "./faults.ts";
import { follow, selfOf } from "./follow.ts";

interface ExtensionObject extends KubeObject {
  readonly metadata: KubeObject["metadata"] & {
    readonly finalizers?: string[];
    readonly generation?: number;
  };
  readonly spec: {
    readonly type?: string;
    readonly name?: string;
    readonly values?: readonly string[];
    readonly ttl?: number;
  };
  readonly status?: {
    readonly state?: unknown;
    readonly lastOperation?: { readonly type: string; readonly state: string };
  };
}

const OPERATION = "gardener.cloud/operation";
const resources = [
  "infrastructures",
  "networks",
  "controlplanes",
  "extensions",
  "containerruntimes",
  "operatingsystemconfigs",
  "workers",
  "dnsrecords",
];
const stepMs = 15;

/** What DNSRecords are written to. */
export interface DrivenZone {
  readonly values: Map<string, readonly string[]>;
  /** Writes a record to real servers too. */
  readonly write?:
    | ((name: string, values: readonly string[], ttlSeconds: number) => Promise<void>)
    | undefined;
}

/** Answers as the extension controllers of one seed (extensions/pkg/controller of gardener v1.149.3). */
export function driveExtensions(
  seed: string,
  api: ApiServer,
  zone: DrivenZone,
  state: DriverState,
  signal: AbortSignal,
): Promise<void>[] {
  return resources.map(async (resource) => {
    const path = `/apis/extensions.gardener.cloud/v1alpha1/${resource}`;
    const finalizer = `extensions.gardener.cloud/${resource}`;
    await follow<ExtensionObject>(
      api,
      path,
      async (object) => {
        const operation = operationOf(object);
        if (operation === undefined) return;
        const self = selfOf(path, object);
        const { name, finalizers = [] } = object.metadata;
        if (operation === "Delete") {
          if (!finalizers.includes(finalizer)) return;
          state.destroyed.push(`${seed}/${resource}/${name}`);
          await merge(api, self, { metadata: { finalizers: null } });
          return;
        }
        if (operation !== "Migrate" && !finalizers.includes(finalizer))
          await merge(api, self, { metadata: { finalizers: [...finalizers, finalizer] } });
        const key = `${seed}/${resource}/${name}/${operation}`;
        const tell = async (text: string, more: object = {}) =>
          await setStatus(api, self, object, operation, text, more);
        await tell("Processing");
        await delay(stepMs);
        const fault = await state.pass(key);
        if (fault !== undefined) {
          const lastError = { description: `${operation} of ${name} went wrong` };
          await tell(fault === "failed" ? "Failed" : "Error", { lastError });
          if (fault === "failed") {
            await merge(api, self, { metadata: { annotations: { [OPERATION]: null } } });
            return;
          }
          await delay(stepMs);
        }
        await actOnWorld(seed, resource, operation, object, zone, state);
        state.done.push(key);
        await tell("Succeeded", { lastError: null, observedGeneration: object.metadata.generation });
        if (operation === "Migrate") await merge(api, self, { metadata: { finalizers: null } });
        await merge(api, self, { metadata: { annotations: { [OPERATION]: null } } });
      },
      signal,
    );
  });
}

/** As ComputeOperationType of gardener, for what the controllers' predicates let through. */
function operationOf({ metadata, status }: ExtensionObject): string | undefined {
  const asked = metadata.annotations?.[OPERATION];
  const last = status?.lastOperation;
  if (asked === "wait-for-state") return undefined;
  if (asked === "migrate") return "Migrate";
  if (metadata.deletionTimestamp !== undefined) return "Delete";
  if (asked === "restore") return "Restore";
  if (last === undefined) return "Create";
  return asked === "reconcile" ? "Reconcile" : undefined;
}

async function actOnWorld(
  seed: string,
  resource: string,
  operation: string,
  { metadata: { name }, spec }: ExtensionObject,
  zone: DrivenZone,
  state: DriverState,
): Promise<void> {
  if (resource !== "dnsrecords") return;
  const record = spec.name ?? name;
  if (operation !== "Migrate") {
    zone.values.set(record, spec.values ?? []);
    await zone.write?.(record, spec.values ?? [], spec.ttl ?? 120);
  } else if (spec.type === "local") {
    // As provider-local's actuator does.
    zone.values.delete(record);
    state.destroyed.push(`${seed}/dnsrecords/${name}`);
  }
}

async function setStatus(
  api: ApiServer,
  self: string,
  { status }: ExtensionObject,
  type: string,
  state: string,
  more: object,
): Promise<void> {
  const now = new Date().toISOString();
  const lastOperation = {
    type,
    state,
    description: state,
    progress: state === "Succeeded" ? 100 : 50,
    lastUpdateTime: now,
  };
  const kept = status?.state === undefined ? {} : { state: status.state };
  await merge(api, `${self}/status`, { status: { ...kept, ...more, lastOperation } });
}
