import { converge } from "../../kubernetes/converge.ts";
import { ApiError } from "../../kubernetes/api-server.ts";
import { merge } from "../../kubernetes/objects.ts";
import { requireStopped } from "../statefulset/controllers.ts";
import { MACHINE_CONTROLLER, machines } from "./names.ts";
import { namespaceOf, namespacePath } from "./namespace.ts";
import type { ShootSeed } from "./namespace.ts";
import { deleteObject, listOrNone } from "./operations.ts";
import type { Operated, Waits } from "./operations.ts";
import type { Side } from "../types.ts";

/** Owners come first: what is made after them names them. */
const KINDS = [
  ["machineclasses", "MachineClass"],
  ["machinedeployments", "MachineDeployment"],
  ["machinesets", "MachineSet"],
  ["machines", "Machine"],
] as const;

interface MachineObject extends Operated {
  readonly metadata: Operated["metadata"] & { readonly ownerReferences?: readonly OwnerReference[] };
  readonly providerSpec?: unknown;
}
interface OwnerReference {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** The machine controller would delete every virtual machine that it has no Machine for. */
export class MachinesDifferError extends Error {
  override readonly name = "MachinesDifferError";
}

/** On the destination's namespace: the side that knows all machines, and the move that has brought them there. */
export const KNOWN = "rehome.dev/knows-machines";

/**
 * Brings the machines to a side, once each way, before its controllers begin: a copy of a side that was never told all, or
 * that others have overtaken since, would lack some, and virtual machines without a Machine are deleted.
 */
export async function handOverMachines(
  { source, destination }: Readonly<Record<Side, ShootSeed>>,
  { side, move }: { readonly side: Side; readonly move: string },
  waits: Waits,
): Promise<void> {
  const namespace = await namespaceOf(destination, waits.signal);
  // Without it nothing has been brought there.
  if (namespace === undefined) return;
  const { resourceVersion, annotations } = namespace.metadata;
  const known = annotations?.[KNOWN];
  if (known === `${side} ${move}`) return;
  if (side === "destination") await copyMachines(source, destination, waits);
  else if (known === `destination ${move}`) await copyMachines(destination, source, waits);
  await merge(destination.api, namespacePath(destination.namespace.name), {
    metadata: { resourceVersion, annotations: { [KNOWN]: `${side} ${move}` } },
  });
}

/**
 * Makes one side's machines known at the other, so that the machine controller there finds every virtual machine that
 * there is. Machines that only the other side knows are gone here, and are taken away there, without their virtual machines
 * being touched.
 * @throws MachinesDifferError when the sides do not name the same virtual machines in the end; Error when a machine
 *   controller runs, which would make up for machines that it does not know yet.
 */
async function copyMachines(from: ShootSeed, to: ShootSeed, waits: Waits): Promise<void> {
  for (const { namespace } of [from, to]) await requireStopped(namespace, [MACHINE_CONTROLLER], waits.signal);
  const uids = new Map<string, string>();
  for (const [resource, kind] of KINDS) {
    const path = machines(from.namespace.name, resource);
    const known = async ({ api }: ShootSeed) => await listOrNone<MachineObject>(api, path, waits.signal);
    const [here, there] = [await known(from), await known(to)];
    for (const object of here)
      uids.set(`${kind}/${object.metadata.name}`, await copy(to, path, kind, object, uids, waits));
    const names = new Set(here.map(({ metadata }) => metadata.name));
    for (const { metadata } of there)
      if (!names.has(metadata.name)) await deleteObject(to.api, { path, name: metadata.name }, waits, true);
  }
  const [here, there] = [await providerIds(from, waits.signal), await providerIds(to, waits.signal)];
  if (here.join(" ") !== there.join(" ")) {
    throw new MachinesDifferError(
      `${from.api.name} knows the machines ${here.join(", ")}, ${to.api.name} ${there.join(", ")}`,
    );
  }
}

async function copy(
  { api }: ShootSeed,
  path: string,
  kind: string,
  object: MachineObject,
  uids: ReadonlyMap<string, string>,
  { signal }: Waits,
): Promise<string> {
  const { apiVersion: _a, kind: _k, metadata, status, ...content } = object;
  const { name, labels, annotations, finalizers, ownerReferences = [] } = metadata;
  const owners = ownerReferences.map((owner) => ({
    ...owner,
    uid: uids.get(`${owner.kind}/${owner.name}`) ?? owner.uid,
  }));
  const body = {
    apiVersion: "machine.sapcloud.io/v1alpha1",
    kind,
    metadata: { name, labels, annotations, finalizers, ownerReferences: owners },
    ...content,
  };
  try {
    await api.json({ method: "POST", path, body, signal });
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === "AlreadyExists")) throw error;
    const same = (found: MachineObject) => JSON.stringify(found.spec) === JSON.stringify(object.spec);
    await converge<MachineObject>(
      api,
      `${path}/${name}`,
      (found) => (same(found) ? undefined : content),
      signal,
    );
  }
  const made = await api.json<MachineObject>({ path: `${path}/${name}`, signal });
  // Where a Machine's node is, and that it is running, is its status; without it the controller would make another.
  if (status !== undefined && JSON.stringify(made.status) !== JSON.stringify(status))
    await converge<MachineObject>(api, `${path}/${name}`, () => ({ status }), signal, "/status").catch(
      ignoreMissing,
    );
  return made.metadata.uid!;
}

/** MachineClasses have no status of their own. */
function ignoreMissing(error: unknown): void {
  if (!(error instanceof ApiError && error.status === 404)) throw error;
}

/** Deletes the machines' objects and leaves the virtual machines alone; the machine controller must be stopped. */
export async function forgetMachines(seed: ShootSeed, waits: Waits): Promise<void> {
  for (const [resource] of KINDS.toReversed()) {
    const path = machines(seed.namespace.name, resource);
    for (const { metadata } of await listOrNone<MachineObject>(seed.api, path, waits.signal))
      await deleteObject(seed.api, { path, name: metadata.name }, waits, true);
  }
}

async function providerIds(seed: ShootSeed, signal: AbortSignal): Promise<string[]> {
  const found = await listOrNone<MachineObject>(seed.api, machines(seed.namespace.name, "machines"), signal);
  return found.map(({ metadata, spec }) => `${metadata.name}=${JSON.stringify(spec?.["providerID"])}`).sort();
}
