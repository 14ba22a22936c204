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
 * Makes the controllers of `to` responsible for the infrastructure: each resource is let go of at `from` (`migrate`), then
 * taken over at `to` with the state that `from` has left in it (`restore`). Deletes nothing. Goes the way back from any
 * point of the way there.
 */
export async function handOverExtensions(from: ShootSeed, to: ShootSeed, waits: Waits): Promise<void> {
  for (const { path, kind, name } of await namesIn([from, to], waits.signal)) {
    const find = async ({ api }: ShootSeed) =>
      await api.find<Operated>({ path: `${path}/${name}`, signal: waits.signal });
    const [here, there] = [standingOf(await find(from)), standingOf(await find(to))];
    if (there === "settled") continue;
    if (there === "leaving" && here === "waiting") {
      // It has never come to `from`: the state is that of `to` still.
      await deleteObject(from.api, { path, name }, waits);
    } else if (there !== "arriving") {
      const left = await operate(from.api, { path, name }, "migrate", waits);
      await take(to, path, kind, left, waits);
    }
    await operate(to.api, { path, name }, "restore", waits);
  }
}

interface Named {
  readonly path: string;
  readonly kind: string;
  readonly name: string;
}

/** The resources that at least one of the seeds has. */
async function namesIn(seeds: readonly ShootSeed[], signal: AbortSignal): Promise<readonly Named[]> {
  const found = await Promise.all(seeds.map(async (seed) => await all(seed, signal)));
  const named = found.flat().map(({ path, kind, object }) => ({ path, kind, name: object.metadata.name }));
  return [...new Map(named.map((each) => [`${each.path}/${each.name}`, each])).values()];
}

/** Without this a controller would begin at once, and make new infrastructure (constants, wait-for-state). */
const WAIT_FOR_STATE = "wait-for-state";

/**
 * Where a resource stands in one seed: it is not there, or waits for the other seed's state; its controller lets go of it,
 * or has; is to take it over, or has; or has never been asked for either, or has gone on since.
 */
function standingOf(object: Operated | undefined): "waiting" | "leaving" | "arriving" | "settled" {
  const asked = object?.metadata.annotations?.[OPERATION];
  const last = object?.status?.lastOperation?.type;
  if (object === undefined || (asked === WAIT_FOR_STATE && last === undefined)) return "waiting";
  if (asked === "migrate") return "leaving";
  if (asked === "restore") return "arriving";
  if (last === "Migrate") return "leaving";
  return last === "Restore" ? "arriving" : "settled";
}

async function take(
  { api }: ShootSeed,
  path: string,
  kind: string,
  { metadata: { name, labels }, spec, status = {} }: Operated,
  { signal }: Waits,
): Promise<void> {
  const annotations = { [OPERATION]: WAIT_FOR_STATE };
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
