import type { Inspection, Side } from "../types.ts";
import { canOverrideUrls, inspectEtcd } from "./druid.ts";
import { API_SERVER, CONTROLLERS, VPN_SERVER } from "./names.ts";
import type { GardenerLayout } from "./names.ts";
import { namespaceOf } from "./namespace.ts";
import type { ShootSeed } from "./namespace.ts";
import type { GardenShoot } from "./shoot.ts";

/** A quorum survives the loss of either seed only with so many members. */
export const MEMBERS = 3;

interface Parts {
  readonly shoot: GardenShoot;
  readonly at: Readonly<Record<Side, ShootSeed>>;
  readonly layout: GardenerLayout;
}

/** What is found before a move, in the garden and in both seeds, and what forbids one. */
export async function inspect({ shoot, at, layout }: Parts, signal: AbortSignal): Promise<Inspection> {
  const { source, destination } = at;
  const silent = await shoot.whySilent(signal);
  if (silent !== undefined)
    return { etcds: [], apiServers: 0, controllers: [], vpn: false, refusals: [silent] };
  const refusals = await shoot.refusals(source.api, destination.api, signal);
  if ((await namespaceOf(destination, signal)) !== undefined)
    refusals.push(
      `namespace ${layout.namespace} is in use at ${destination.api.name}: see what it is, and delete it`,
    );
  for (const { api } of [source, destination]) {
    if (!(await canOverrideUrls(api, signal)))
      refusals.push(
        `etcd-druid of ${api.name} cannot override peer URLs (spec.etcd.additionalAdvertisedURLs): members of both seeds would have equal names; update it`,
      );
  }
  const found = await Promise.all(layout.etcds.map(async (etcd) => await inspectEtcd(source, etcd, signal)));
  for (const [i, etcd] of found.entries()) {
    if (etcd === undefined)
      refusals.push(`${source.api.name} has no Etcd ${layout.namespace}/${layout.etcds[i]}`);
    else if (etcd.members !== MEMBERS)
      refusals.push(
        `Etcd ${layout.namespace}/${etcd.name} has ${etcd.members} members: a live move needs ${MEMBERS}`,
      );
  }
  const server = await source.namespace.workload("deployments", API_SERVER, signal);
  if (server === undefined)
    refusals.push(`${source.api.name} has no Deployment ${layout.namespace}/${API_SERVER}`);
  if (!layout.vpn && (await hasVpnServer(source, signal)))
    refusals.push(
      `${source.api.name} has the VPN server ${layout.namespace}/${VPN_SERVER}: say in controlPlanes.${layout.name}.vpn how nodes are reached through it`,
    );
  return {
    etcds: found.flatMap((etcd) => etcd ?? []),
    apiServers: server?.spec.replicas ?? 0,
    controllers: CONTROLLERS,
    vpn: layout.vpn,
    refusals,
  };
}

async function hasVpnServer({ namespace }: ShootSeed, signal: AbortSignal): Promise<boolean> {
  const kinds = ["deployments", "statefulsets"] as const;
  const found = kinds.map(async (kind) => await namespace.workload(kind, VPN_SERVER, signal));
  return (await Promise.all(found)).some((workload) => workload !== undefined);
}
