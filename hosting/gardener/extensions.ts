import { converge } from "../../kubernetes/converge.ts";
import { ApiError } from "../../kubernetes/api-server.ts";
import { OPERATION, extension } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import { deleteObject, listOrNone, operate } from "./operations.ts";
import type { Operated, Waits } from "./operations.ts";

/**
 * Extension resources that hold infrastructure, in the order in which they are restored. DNSRecords go their own way
 * (dns-records.ts), and BackupEntries are gardenlets' work (backups.ts).
 */
const KINDS = [
  ["infrastructures", "Infrastructure"],
  ["networks", "Network"],
  ["controlplanes", "ControlPlane"],
  ["extensions", "Extension"],
  ["containerruntimes", "ContainerRuntime"],
  ["operatingsystemconfigs", "OperatingSystemConfig"],
  ["workers", "Worker"],
] as const;

interface Found {
  readonly path: string;
  readonly kind: string;
  readonly object: Operated;
}

/**
 * Makes the controllers of another seed responsible for the infrastructure: each resource is let go of here
 * (`migrate`), then taken over there with the state that this side has left in it (`restore`). Deletes nothing.
 */
export async function handOverExtensions(from: ShootSeed, to: ShootSeed, waits: Waits): Promise<void> {
  for (const { path, kind, object } of await all(from, waits.signal)) {
    const { name } = object.metadata;
    if (!(await isTaken(to, path, name, waits.signal))) {
      const left = await operate(from.api, { path, name }, "migrate", waits);
      await take(to, path, kind, left, waits);
    }
    await operate(to.api, { path, name }, "restore", waits);
  }
}

/** Whether the other side has it, or has been given all that it needs to take it. */
async function isTaken(to: ShootSeed, path: string, name: string, signal: AbortSignal): Promise<boolean> {
  const object = await to.api.find<Operated>({ path: `${path}/${name}`, signal });
  const last = object?.status?.lastOperation?.type;
  return (
    object?.metadata.annotations?.[OPERATION] === "restore" || (last !== undefined && last !== "Migrate")
  );
}

async function take(
  { api }: ShootSeed,
  path: string,
  kind: string,
  { metadata: { name, labels }, spec, status = {} }: Operated,
  { signal }: Waits,
): Promise<void> {
  // Without this its controller would begin at once, and make new infrastructure (constants, wait-for-state).
  const annotations = { [OPERATION]: "wait-for-state" };
  const metadata = { name, labels, annotations };
  const body = { apiVersion: "extensions.gardener.cloud/v1alpha1", kind, metadata, spec };
  try {
    await api.json({ method: "POST", path, body, signal });
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
  }
  // Before `restore` is asked for: the controller reads the state in it (extensions, restore of each kind).
  const { state = null, resources = null } = status;
  await converge<Operated>(
    api,
    `${path}/${name}`,
    (object) => {
      const isEqual = JSON.stringify(object.status?.state ?? null) === JSON.stringify(state);
      return isEqual ? undefined : { status: { state, resources } };
    },
    signal,
    "/status",
  );
  await converge<Operated>(
    api,
    `${path}/${name}`,
    (object) =>
      object.metadata.annotations?.[OPERATION] === "restore"
        ? undefined
        : { metadata: { annotations: { [OPERATION]: "restore" } } },
    signal,
  );
}

/**
 * Whether no controller of a side has infrastructure any more, for all of it is the other side's.
 * @throws Error for a resource that one still has: its deletion would delete infrastructure.
 */
export async function requireLetGo(seed: ShootSeed, signal: AbortSignal): Promise<void> {
  for (const { kind, object } of await all(seed, signal)) {
    const { type, state } = object.status?.lastOperation ?? { type: "no operation", state: "" };
    if (type !== "Migrate" || state !== "Succeeded") {
      throw new Error(
        `${kind} ${object.metadata.name} at ${seed.api.name} is not migrated (${type} ${state}): what it stands for would be deleted`,
      );
    }
  }
}

/** Deletes the resources of a side whose controllers have let go of them: nothing outside the seed is touched. */
export async function deleteExtensions(seed: ShootSeed, waits: Waits): Promise<void> {
  await requireLetGo(seed, waits.signal);
  for (const { path, object } of (await all(seed, waits.signal)).toReversed())
    await deleteObject(seed.api, { path, name: object.metadata.name }, waits);
}

async function all(seed: ShootSeed, signal: AbortSignal): Promise<Found[]> {
  const found: Found[] = [];
  for (const [resource, kind] of KINDS) {
    const path = extension(seed.namespace.name, resource);
    for (const object of await listOrNone<Operated>(seed.api, path, signal))
      found.push({ path, kind, object });
  }
  return found;
}
