import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer, Permit } from "../../kubernetes/api-server.ts";
import { awaitObject, removeObject } from "../../kubernetes/objects.ts";
import { CLAIM, EPOCH, fresh, holderOf } from "../claim.ts";
import type { Claim } from "../claim.ts";
import { isReachable } from "../reachable.ts";
import { ClaimedError } from "../types.ts";
import type { ApiServerAddress, Hosting, HostedDns, Side } from "../types.ts";
import { carryOver } from "./carry-over.ts";
import { NamespaceClaims } from "./claims.ts";
import { fenceController, requireStopped, startControllers } from "./controllers.ts";
import { failureDeadlineMs } from "./deadlines.ts";
import {
  awaitMemberReady,
  credentialsOf,
  exposeMembers,
  hideMembers,
  innerPeerUrls,
  inspectEtcd,
  mayBeTold,
  noteTold,
  peerRoundTrips,
  startMember,
  stopMembers,
} from "./members.ts";
import { whyUnfit } from "./unfit.ts";
import { SeedNamespace } from "./seed.ts";

/** What this way of hosting must be told; names of objects in the control plane's namespace. */
export interface StatefulSetLayout {
  readonly name: string;
  readonly namespace: string;
  readonly etcds: readonly string[];
  readonly apiServer: { readonly deployment: string; readonly service: string };
  readonly controllers: readonly string[];
  readonly otherControllers: readonly string[];
  readonly vpnServer?: string | undefined;
}

const MEMBERS = 3;
const CLIENT_PORT = 2379;

/**
 * A control plane made of StatefulSets, Deployments, Services, Secrets and Leases in one namespace. Its objects carry
 * the label of carry-over.ts; docs/control-plane.md says what they must look like.
 */
export function createStatefulSetHosting(
  seeds: Readonly<Record<Side, ApiServer>>,
  layout: StatefulSetLayout,
  dns: (permit: Permit) => HostedDns,
  claim: Claim,
): Hosting {
  const { move, epoch } = claim;
  const claims = new NamespaceClaims(layout.namespace, claim);
  const requireClaim = fresh(
    async (signal) => await claims.require([seeds.source, seeds.destination], signal),
  );
  const seedOf = (side: Side, other: Side) => {
    const permit = fresh(async (signal) => await claims.requireAt(seeds[side], seeds[other], signal));
    return new SeedNamespace(seeds[side].guardedBy(permit), layout.namespace, epoch);
  };
  const at: Readonly<Record<Side, SeedNamespace>> = {
    source: seedOf("source", "destination"),
    destination: seedOf("destination", "source"),
  };
  const { source, destination } = at;

  return {
    dns: dns(requireClaim),
    promotesByItself: false,

    async inspect(signal) {
      const refusals: string[] = [];
      const here = await claims.find(seeds.source, signal);
      if (here === undefined)
        refusals.push(
          `${source.api.name} has no namespace ${layout.namespace}: the control plane is not there`,
        );
      const holder = holderOf(here);
      if (holder !== undefined)
        refusals.push(
          `namespace ${layout.namespace} at ${source.api.name} is claimed by the move ${holder}: wait for its end; reset it where it was terminated`,
        );
      if ((await claims.find(seeds.destination, signal)) !== undefined) {
        refusals.push(
          `namespace ${layout.namespace} is in use at ${destination.api.name}: delete what is left there, if nobody needs it`,
        );
      }
      const found = await Promise.all(
        layout.etcds.map(async (etcd) => await inspectEtcd(source, etcd, signal)),
      );
      const etcds = found.flatMap((etcd) => etcd ?? []);
      for (const [i, etcd] of layout.etcds.entries()) {
        if (found[i] === undefined)
          refusals.push(
            `${source.api.name} has no StatefulSet ${layout.namespace}/${etcd}: check controlPlanes.${layout.name}.etcds`,
          );
        else if (found[i].members !== MEMBERS)
          refusals.push(
            `StatefulSet ${layout.namespace}/${etcd} has ${found[i].members} members: a live move needs ${MEMBERS}`,
          );
      }
      const server = await source.workload("deployments", layout.apiServer.deployment, signal);
      if (server === undefined)
        refusals.push(
          `${source.api.name} has no Deployment ${layout.namespace}/${layout.apiServer.deployment}`,
        );
      refusals.push(...(await whyUnfit(source, layout, MEMBERS, signal)));
      return {
        etcds,
        apiServers: server?.spec.replicas ?? 0,
        controllers: layout.controllers,
        vpn: layout.vpnServer !== undefined,
        refusals,
      };
    },

    isReachable: async (side, signal) => await isReachable(seeds[side], signal),

    async claim(signal) {
      await claims.take(seeds.source, signal);
    },
    requireClaim,
    async release(signal) {
      await claims.giveBack(seeds.source, true, signal);
      await claims.giveBack(seeds.destination, false, signal);
    },

    clientUrls: async (side, etcd, signal) => [
      `https://${await at[side].ingressOf(`${etcd}-client-external`, signal)}:${CLIENT_PORT}`,
    ],
    credentials: async (etcd, signal) =>
      await either(at, async (seed) => await credentialsOf(seed, etcd, signal)),
    exposePeers: async (side, etcd, signal) => await exposeMembers(at[side], etcd, MEMBERS, signal),
    // A member keeps in its data what etcd is told, and its Service stays: there is only to note that it is told now.
    advertisePeers: async (etcd, _members, signal) => await noteTold(source, etcd, MEMBERS, signal),
    mayHaveOuterPeers: async (etcd, signal) => await mayBeTold(source, etcd, MEMBERS, signal),
    innerPeerUrls: async (etcd, signal) => await innerPeerUrls(source, etcd, MEMBERS, signal),
    hidePeers: async (etcd, signal) => await hideMembers(source, etcd, MEMBERS, signal),
    startMember: async (etcd, ordinal, bootstrap, signal) =>
      await startMember(destination, etcd, ordinal, bootstrap, signal),
    awaitMemberReady: async (side, etcd, ordinal, signal) =>
      await awaitMemberReady(at[side], etcd, ordinal, signal),
    stopMembers: async (side, etcd, keep, signal) => await stopMembers(at[side], etcd, keep, signal),
    peerRoundTrips: async (etcd, ordinal, peers, signal) =>
      await peerRoundTrips(destination, etcd, ordinal, peers, signal),

    async carryOver(signal) {
      const existing = await claims.findOwn(seeds.destination, signal);
      if (existing === undefined) {
        const body = {
          apiVersion: "v1",
          kind: "Namespace",
          metadata: { name: layout.namespace, annotations: { [CLAIM]: move, [EPOCH]: String(epoch) } },
        };
        await destination.api.json({ method: "POST", path: "/api/v1/namespaces", body, signal });
      }
      return await carryOver(source, destination, layout.name, signal);
    },

    clearDestination: async (signal) => await removeNamespace(destination, claims, signal),
    clearSource: async (signal) => await removeNamespace(source, claims, signal),

    async startApiServers(side, signal) {
      await at[side].start(layout.apiServer.deployment, signal);
      return await addressOf(at[side], layout, signal);
    },
    apiServerAddress: async (side, signal) => await addressOf(at[side], layout, signal),
    async stopApiServers(side, signal) {
      await at[side].stop("deployments", layout.apiServer.deployment, signal);
    },

    async startVpnServer(side, signal) {
      const name = layout.vpnServer!;
      const seed = at[side];
      await seed.start(name, signal);
      const path = `${seed.core("services")}/${name}`;
      const service = await seed.api.json<{ spec: { ports: { port: number }[] } }>({ path, signal });
      return `${await seed.ingressOf(name, signal)}:${service.spec.ports[0]!.port}`;
    },
    async stopVpnServer(side, signal) {
      if (layout.vpnServer !== undefined) await at[side].stop("deployments", layout.vpnServer, signal);
    },

    async fenceControllers(side, signal) {
      const stopped = await Promise.all(
        layout.controllers.map(async (name) => await fenceController(at[side], name, signal)),
      );
      return stopped.flatMap((controller) => controller ?? []);
    },
    async startControllers(side, signal) {
      await requireStopped(side === "source" ? destination : source, layout.controllers, signal);
      await startControllers(at[side], [...layout.otherControllers, ...layout.controllers], signal);
    },
    async resumeControllers(signal) {
      if (await isReachable(seeds.destination, signal))
        await requireStopped(destination, layout.controllers, signal);
      await startControllers(source, layout.controllers, signal);
    },

    // Backups of plain StatefulSets are the operator's own jobs, which are not carried over.
    finishBackups: async () => undefined,
    adopt: async () => undefined,
  };
}

/** Asks the source, or the destination while the source does not answer: both know the same. */
async function either<T>(
  at: Readonly<Record<Side, SeedNamespace>>,
  ask: (seed: SeedNamespace) => Promise<T>,
): Promise<T> {
  try {
    return await ask(at.source);
  } catch (error) {
    const isAnswer = error instanceof ApiError && error.status < 500 && error.status !== 429;
    if (isAnswer || error instanceof ClaimedError) throw error;
    return await ask(at.destination);
  }
}

function namespacePath(name: string): string {
  return `/api/v1/namespaces/${name}`;
}

/** Only what this move holds is deleted, exactly as it was when that was seen; returns when it is gone. */
async function removeNamespace(
  seed: SeedNamespace,
  claims: NamespaceClaims,
  signal: AbortSignal,
): Promise<void> {
  const namespace = await claims.findOwn(seed.api, signal);
  if (namespace === undefined) return;
  await removeObject(seed.api, namespacePath(seed.name), { preconditions: { uid: namespace.metadata.uid } });
  await awaitObject(
    seed.api,
    { path: "/api/v1/namespaces", name: seed.name },
    (found) => found === undefined || "still there",
    {
      what: `namespace ${seed.name} is gone at ${seed.api.name}`,
      deadlineMs: failureDeadlineMs,
      signal,
    },
  );
}

async function addressOf(
  seed: SeedNamespace,
  { apiServer }: StatefulSetLayout,
  signal: AbortSignal,
): Promise<ApiServerAddress> {
  const host = await seed.ingressOf(apiServer.service, signal);
  return { url: `https://${host}`, values: [host] };
}
