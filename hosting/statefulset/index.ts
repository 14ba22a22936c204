import { SupersededError } from "../../etcd/errors.ts";
import { ApiError } from "../../kubernetes/api-server.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import { awaitObject, merge, removeObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { CLAIM, EPOCH, awaitTakeover, holderOf, missingEpoch } from "../claim.ts";
import type { Claim } from "../claim.ts";
import { ClaimedError } from "../types.ts";
import type { ApiServerAddress, Hosting, HostedDns, Side } from "../types.ts";
import { carryOver } from "./carry-over.ts";
import { fenceController, startController } from "./controllers.ts";
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
  peerRoundTripMs,
  startMember,
  stopMembers,
} from "./members.ts";
import { SeedNamespace } from "./seed.ts";
import type { Attempt } from "./seed.ts";

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
const REACHABLE_MS = 5_000;

/**
 * A control plane made of StatefulSets, Deployments, Services, Secrets and Leases in one namespace. Its objects carry
 * the label of carry-over.ts; docs/control-plane.md says what they must look like.
 */
export function createStatefulSetHosting(
  seeds: Readonly<Record<Side, ApiServer>>,
  layout: StatefulSetLayout,
  dns: HostedDns,
  claim: Claim,
): Hosting {
  const { move, epoch } = claim;
  const attempt: Attempt = {
    epoch,
    requireClaim: async (signal) => await requireClaim([source, destination], claim, signal),
  };
  const at: Readonly<Record<Side, SeedNamespace>> = {
    source: new SeedNamespace(seeds.source, layout.namespace, attempt),
    destination: new SeedNamespace(seeds.destination, layout.namespace, attempt),
  };
  const { source, destination } = at;

  return {
    dns,
    promotesByItself: false,

    async inspect(signal) {
      const refusals: string[] = [];
      const here = await namespaceOf(source, signal);
      if (here === undefined)
        refusals.push(
          `${source.api.name} has no namespace ${layout.namespace}: the control plane is not there`,
        );
      const holder = holderOf(here);
      if (holder !== undefined)
        refusals.push(
          `namespace ${layout.namespace} at ${source.api.name} is claimed by the move ${holder}: wait for its end`,
        );
      if ((await namespaceOf(destination, signal)) !== undefined) {
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
      return {
        etcds,
        apiServers: server?.spec.replicas ?? 0,
        controllers: layout.controllers,
        vpn: layout.vpnServer !== undefined,
        refusals,
      };
    },

    async isReachable(side, signal) {
      try {
        const { status } = await seeds[side].request({ path: "/readyz", timeoutMs: REACHABLE_MS, signal });
        return status === 200;
      } catch {
        signal.throwIfAborted();
        return false;
      }
    },

    async claim(signal) {
      const namespace = await namespaceOf(source, signal);
      if (namespace === undefined) throw new Error(`${source.api.name} has no namespace ${layout.namespace}`);
      const holder = holderOf(namespace);
      if (holder === move) return;
      if (holder !== undefined) throw new ClaimedError(whatOf(source), holder);
      const { resourceVersion } = namespace.metadata;
      await merge(source.api, namespacePath(layout.namespace), {
        metadata: { resourceVersion, annotations: { [CLAIM]: move } },
      });
    },

    requireClaim: attempt.requireClaim,

    async awaitTakeover(signal) {
      await Promise.race(
        [source, destination].map(async ({ api, name }) => {
          await awaitTakeover(api, { path: "/api/v1/namespaces", name }, claim, signal);
        }),
      );
    },

    async release(signal) {
      for (const seed of [source, destination]) {
        // Raised first: whoever still goes on has lost the claim before the epochs are forgotten.
        if ((await raiseEpoch(seed, claim, signal)) !== move) continue;
        await seed.forgetEpochs(signal);
        await merge(seed.api, namespacePath(layout.namespace), {
          metadata: { annotations: { [CLAIM]: null, [EPOCH]: null } },
        });
      }
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
    peerRoundTripMs: async (etcd, ordinal, peers, signal) =>
      await peerRoundTripMs(destination, etcd, ordinal, peers, signal),

    async carryOver(signal) {
      const existing = await namespaceOf(destination, signal);
      const holder = holderOf(existing);
      if (existing !== undefined && holder !== move)
        throw new ClaimedError(whatOf(destination), holder ?? "nobody");
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

    clearDestination: async (signal) => await removeNamespace(destination, move, signal),
    clearSource: async (signal) => await removeNamespace(source, move, signal),

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
      for (const name of [...layout.otherControllers, ...layout.controllers])
        await startController(at[side], name, signal);
    },

    // Backups of plain StatefulSets are the operator's own jobs; they went along as objects.
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
    if (error instanceof ClaimedError || error instanceof ApiError) throw error;
    return await ask(at.destination);
  }
}

function whatOf({ name, api }: SeedNamespace): string {
  return `namespace ${name} at ${api.name}`;
}

function namespacePath(name: string): string {
  return `/api/v1/namespaces/${name}`;
}

async function namespaceOf(
  { api, name }: SeedNamespace,
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  return await api.find<KubeObject>({ path: namespacePath(name), signal });
}

/** One seed's word is enough, so that a move can go on while the other is cut off or has been cleared. */
async function requireClaim(
  seeds: readonly SeedNamespace[],
  claim: Claim,
  signal: AbortSignal,
): Promise<void> {
  const asked = await Promise.allSettled(seeds.map(async (seed) => await raiseEpoch(seed, claim, signal)));
  const holders = asked.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  const errors = asked.flatMap((answer) => (answer.status === "rejected" ? [answer.reason as Error] : []));
  const superseded = errors.find((error) => error instanceof SupersededError);
  if (superseded) throw superseded;
  const other = holders.find((holder) => holder !== undefined && holder !== claim.move);
  if (other === undefined && holders.includes(claim.move)) return;
  if (other === undefined && errors[0]) throw errors[0];
  throw new ClaimedError(`namespace ${seeds[0]?.name}`, other ?? "nobody");
}

/** @returns the move that holds the namespace, if any; another's is left as it is. @throws SupersededError */
async function raiseEpoch(
  seed: SeedNamespace,
  { move, epoch }: Claim,
  signal: AbortSignal,
): Promise<string | undefined> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(REACHABLE_MS)]);
  if ((await namespaceOf(seed, limit)) === undefined) return undefined;
  const change = (namespace: KubeObject) => {
    if (holderOf(namespace) !== move) return undefined;
    const annotations = missingEpoch(namespace, epoch, whatOf(seed));
    return Object.keys(annotations).length === 0 ? undefined : { metadata: { annotations } };
  };
  return holderOf(await converge(seed.api, namespacePath(seed.name), change, limit));
}

/** Only what this move holds is deleted, exactly as it was when that was seen; returns when it is gone. */
async function removeNamespace(seed: SeedNamespace, move: string, signal: AbortSignal): Promise<void> {
  const namespace = await namespaceOf(seed, signal);
  if (namespace === undefined) return;
  const holder = holderOf(namespace);
  if (holder !== move) throw new ClaimedError(whatOf(seed), holder ?? "nobody");
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
