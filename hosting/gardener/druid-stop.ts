import { converge } from "../../kubernetes/converge.ts";
import { awaitObjects, removeObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { GO_ON, HOLD_OFF, findEtcd, isHeldOff, memberName } from "./druid.ts";
import type { Etcd } from "./druid.ts";
import { etcds } from "./names.ts";
import type { ShootSeed } from "./namespace.ts";
import { deleteObject } from "./operations.ts";
import type { Waits } from "./operations.ts";
import { podOf } from "./peers.ts";

/**
 * Stops the members from `keep` upward and deletes their data. An Etcd's replicas can only be raised or set to none
 * (a rule of its CRD), so for some members of several druid is held off meanwhile; without any the Etcd goes.
 * @param isLeaving whether the others are to stop soon, too: druid is held off until then, or it would restart them.
 */
export async function stopMembers(
  seed: ShootSeed,
  name: string,
  keep: number,
  isLeaving: boolean,
  waits: Waits,
): Promise<void> {
  const etcd = await findEtcd(seed, name, waits.signal);
  if (etcd !== undefined && keep === 0)
    await deleteObject(seed.api, { path: etcds(seed.namespace.name), name }, waits);
  else if (etcd !== undefined) await lower(seed, etcd, keep, waits);
  await awaitStopped(seed, name, keep, waits);
  await deleteClaims(seed, name, keep, waits);
  if (etcd !== undefined && keep > 0 && !isLeaving) await resume(seed, name, waits.signal);
}

async function lower(seed: ShootSeed, etcd: Etcd, keep: number, { signal }: Waits): Promise<void> {
  const { name } = etcd.metadata;
  const path = `${etcds(seed.namespace.name)}/${name}`;
  const workload = await seed.namespace.workload("statefulsets", name, signal);
  // Where an attempt has held druid off and died, the replicas may be none for the moment.
  const isFewEnough = !isHeldOff(etcd) && etcd.spec.replicas <= keep;
  if (isFewEnough && (workload?.spec.replicas ?? 0) <= keep) return;
  const held = { metadata: { annotations: HOLD_OFF } };
  await converge<Etcd>(seed.api, path, (found) => (isHeldOff(found) ? undefined : held), signal);
  if ((workload?.spec.replicas ?? 0) > keep) await seed.namespace.scale("statefulsets", name, keep, signal);
  const kept = new Set(
    Array.from({ length: keep }, (_, ordinal) =>
      memberName(etcd.spec.memberNamePrefix, podOf(name, ordinal)),
    ),
  );
  // A later attempt that begins anew with a greater number raises nothing.
  const left = Math.min(keep, workload?.spec.replicas ?? keep);
  // Through none: the CRD allows no other way down, and druid does not look.
  for (const replicas of [0, left]) {
    await converge<Etcd>(
      seed.api,
      path,
      ({ spec }) => {
        if (spec.replicas === left) return undefined;
        const { peerURLs } = spec.etcd.additionalAdvertisedURLs ?? {};
        const all = peerURLs?.members ?? [];
        const members = all.filter(({ memberName: member }) => kept.has(member));
        const advertised = peerURLs && {
          etcd: { additionalAdvertisedURLs: { peerURLs: { ...peerURLs, members } } },
        };
        return { spec: { replicas, ...advertised } };
      },
      signal,
    );
  }
}

async function resume(seed: ShootSeed, name: string, signal: AbortSignal): Promise<void> {
  await converge<Etcd>(
    seed.api,
    `${etcds(seed.namespace.name)}/${name}`,
    (found) => (isHeldOff(found) ? { metadata: { annotations: GO_ON } } : undefined),
    signal,
  );
}

/** By name, not by label: the names of a StatefulSet's pods are its own, and labels are druid's to change. */
const isMember = (etcd: string, keep: number) => {
  const pattern = new RegExp(`^(?:.*-)?${etcd}-(\\d+)$`);
  return ({ metadata }: KubeObject) => Number(pattern.exec(metadata.name)?.[1] ?? -1) >= keep;
};

async function awaitStopped(seed: ShootSeed, etcd: string, keep: number, waits: Waits): Promise<void> {
  await awaitNone(
    seed,
    seed.namespace.core("pods"),
    `the members of ${etcd} from ${keep} on`,
    isMember(etcd, keep),
    waits,
  );
}

/** Not before the pods are gone: a member that starts again without its data would vote with a mind that forgot. */
async function deleteClaims(seed: ShootSeed, etcd: string, keep: number, waits: Waits): Promise<void> {
  const path = seed.namespace.core("persistentvolumeclaims");
  const { deadlineMs, signal } = waits;
  const all = await awaitObjects(seed.api, { path }, () => true, {
    what: "claims are listed",
    deadlineMs,
    signal,
  });
  for (const { metadata } of all.filter(isMember(etcd, keep)))
    await removeObject(seed.api, `${path}/${metadata.name}`);
  await awaitNone(seed, path, `the data of ${etcd} from ${keep} on`, isMember(etcd, keep), waits);
}

async function awaitNone(
  seed: ShootSeed,
  path: string,
  what: string,
  isOne: (object: KubeObject) => boolean,
  { deadlineMs, signal }: Waits,
): Promise<void> {
  const holds = (objects: readonly KubeObject[]) => {
    const left = objects.filter(isOne).map(({ metadata }) => metadata.name);
    return left.length === 0 || `${left.join(", ")} still there`;
  };
  await awaitObjects(seed.api, { path }, holds, {
    what: `${what} are gone (${seed.api.name})`,
    deadlineMs,
    signal,
  });
}
