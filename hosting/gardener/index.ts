import type { ApiServer } from "../../kubernetes/api-server.ts";
import { requireStopped, startControllers } from "../statefulset/controllers.ts";
import { fresh } from "../claim.ts";
import { isReachable } from "../reachable.ts";
import type { Claim } from "../claim.ts";
import type { Hosting, MemberAddress, Side } from "../types.ts";
import { bucketOf, handOverBackups, takeSnapshot } from "./backups.ts";
import { copyNamespace } from "./carry-over.ts";
import { claimNamespace, clearNamespace, makeNamespace, mayClear, releaseNamespace } from "./clear.ts";
import { DnsRecords, hostedDns } from "./dns-records.ts";
import { startMember } from "./druid-join.ts";
import { stopMembers } from "./druid-stop.ts";
import { advertise, advertises, credentialsOf, findEtcd, innerPeerUrls } from "./druid.ts";
import { handOverExtensions } from "./extensions.ts";
import { MEMBERS, inspect } from "./inspect.ts";
import { handOverMachines } from "./machines.ts";
import { readRoundTrips } from "../../etcd/membership/round-trip.ts";
import { metricsOf } from "./metrics.ts";
import { API_SERVER, CONTROLLERS, OTHER_CONTROLLERS, VPN_PORT, VPN_SERVER } from "./names.ts";
import type { GardenerLayout } from "./names.ts";
import { ShootNamespace } from "./namespace.ts";
import type { ShootSeed } from "./namespace.ts";
import { exposeMembers, exposedClientUrls, hideMembers, podOf } from "./peers.ts";
import { persistSecrets } from "./shoot-state.ts";
import { GardenShoot } from "./shoot.ts";
import { addressOf, awaitMember, fence, ingressOf, startEither } from "./workloads.ts";

/** A Shoot whose control plane gardenlets of two seeds run, one after the other. */
export function createGardenerHosting(
  servers: Readonly<Record<Side | "garden", ApiServer>>,
  layout: GardenerLayout,
  claim: Claim,
): Hosting {
  const { move, epoch } = claim;
  const shoot = new GardenShoot(servers.garden, layout, claim);
  const requireClaim = fresh(async (signal) => await shoot.requireClaim(signal));
  const garden = servers.garden.guardedBy(requireClaim);
  const seedOf = (side: Side): ShootSeed => {
    const api = servers[side].guardedBy(requireClaim);
    return { api, name: layout.seeds[side], namespace: new ShootNamespace(api, layout.namespace, epoch) };
  };
  const at: Readonly<Record<Side, ShootSeed>> = {
    source: seedOf("source"),
    destination: seedOf("destination"),
  };
  const { source, destination } = at;
  const records = {
    source: new DnsRecords(source, layout.shoot),
    destination: new DnsRecords(destination, layout.shoot),
  };
  const waits = (signal: AbortSignal) => ({ deadlineMs: layout.deadlineMs, signal });

  const dns = hostedDns(
    records,
    async (signal) => await isReachable(servers.destination, signal),
    layout.deadlineMs,
  );

  /** The same on both sides; the source may be cut off, or cleared, when the destination asks. */
  const credentials = async (etcd: string, signal: AbortSignal) => {
    try {
      return await credentialsOf(source, etcd, signal);
    } catch (error) {
      signal.throwIfAborted();
      if ((await findEtcd(destination, etcd, signal)) === undefined) throw error;
      return await credentialsOf(destination, etcd, signal);
    }
  };

  const clear = async (side: Side, signal: AbortSignal) => {
    if (!(await mayClear(at[side], move, signal))) return;
    await fence(at[side], signal);
    for (const etcd of layout.etcds) await stopMembers(at[side], etcd, 0, true, waits(signal));
    await clearNamespace(at[side], move, waits(signal));
  };

  return {
    dns: {
      ...dns,
      async handOver(signal) {
        await dns.handOver(signal);
        await shoot.mark("MigrateDNSRecords", "True", "the destination answers for the DNSRecords", signal);
      },
    },
    // etcd-backup-restore, pkg/leaderelection: the leader's sidecar promotes learners as soon as etcd takes it.
    promotesByItself: true,
    inspect: async (signal) => await inspect({ shoot, at, layout }, signal),

    isReachable: async (side, signal) => await isReachable(servers[side], signal),

    async claim(signal) {
      await shoot.claim(signal);
      await claimNamespace(source, move, signal);
    },
    requireClaim,
    async release(signal) {
      // Also where the Shoot's claim was taken off by hand.
      for (const side of ["source", "destination"] as const)
        await releaseNamespace({ ...at[side], api: servers[side] }, move, signal);
      await shoot.release(signal);
    },

    clientUrls: async (side, etcd, signal) => await exposedClientUrls(at[side], etcd, MEMBERS, signal),
    credentials: async (etcd, signal) => await credentials(etcd, signal),
    exposePeers: async (side, etcd, signal) => await exposeMembers(at[side], etcd, MEMBERS, signal),
    async advertisePeers(etcd, members, signal) {
      const urls = new Map(members.map(({ pod, peerUrl }) => [pod, peerUrl]));
      await advertise(source, etcd, urls, waits(signal));
      await shoot.mark(
        "SourceEtcdPreparedForPeerJoin",
        "True",
        `${etcd} is reached from other seeds`,
        signal,
      );
    },
    mayHaveOuterPeers: async (etcd, signal) => advertises(await findEtcd(source, etcd, signal)),
    async innerPeerUrls(etcd, signal) {
      const found = await findEtcd(source, etcd, signal);
      if (found === undefined) throw new Error(`${source.api.name} has no Etcd ${layout.namespace}/${etcd}`);
      return innerPeerUrls(found, layout.namespace);
    },
    async hidePeers(etcd, signal) {
      await advertise(source, etcd, undefined, waits(signal));
      await hideMembers(source, etcd, signal);
      await shoot.mark("SourceEtcdPreparedForPeerJoin", "False", `${etcd} is on its own again`, signal);
    },
    async startMember(etcd, ordinal, bootstrap, signal) {
      // Asked for the first member alone: later ones may have to start while the source is cut off.
      const joins = async () => ({
        clientUrls: await exposedClientUrls(source, etcd, MEMBERS, signal),
        bucket: await bucketOf(garden, destination.name, signal),
      });
      await startMember(source, destination, etcd, ordinal, { bootstrap, joins }, waits(signal));
      await awaitMember(destination, podOf(etcd, ordinal), "runs", signal);
    },
    async awaitMemberReady(side, etcd, ordinal, signal) {
      await awaitMember(at[side], podOf(etcd, ordinal), "is ready", signal);
    },
    async stopMembers(side, etcd, keep, signal) {
      await stopMembers(at[side], etcd, keep, side === "source", waits(signal));
      if (side === "destination" && keep === 0)
        await shoot.mark("DestinationEtcdPeersJoined", "False", `${etcd} has left again`, signal);
    },
    async peerRoundTrips(etcd, ordinal, peers, signal) {
      const members = await exposeMembers(destination, etcd, MEMBERS, signal);
      const { clientUrl } = members[ordinal] as MemberAddress;
      const metrics = await metricsOf(clientUrl, await credentials(etcd, signal), signal);
      return readRoundTrips(metrics, peers);
    },

    async carryOver(signal) {
      await persistSecrets(garden, layout, source, signal);
      await makeNamespace(source, destination, move, signal);
      return await copyNamespace(garden, source, destination, signal);
    },
    clearDestination: async (signal) => await clear("destination", signal),
    async clearSource(signal) {
      const left = [...(await records.source.read(signal)).keys()];
      if (left.length > 0) throw new Error(`${records.source.describe(left.join(", "))}: hand it over first`);
      await shoot.mark("EtcdMigrationComplete", "True", "etcd runs at the destination alone", signal);
      await clear("source", signal);
      await shoot.mark("SourceSeedCleanup", "True", "the source's seed has nothing left", signal);
      await shoot.mark("MigrationCompleted", "True", "the destination's gardenlet goes on", signal);
    },

    async startApiServers(side, signal) {
      if (side === "destination")
        await shoot.mark("DestinationEtcdPeersJoined", "True", "two members vote at the destination", signal);
      await at[side].namespace.start(API_SERVER, signal);
      if (side === "destination")
        await shoot.mark("DestinationKubeAPIServerReady", "True", "all replicas are ready", signal);
      return await addressOf(at[side], layout, signal);
    },
    apiServerAddress: async (side, signal) => await addressOf(at[side], layout, signal),
    async stopApiServers(side, signal) {
      await at[side].namespace.stop("deployments", API_SERVER, signal);
      if (side === "destination")
        await shoot.mark("DestinationKubeAPIServerReady", "False", "stopped again", signal);
    },

    async startVpnServer(side, signal) {
      await startEither(at[side], VPN_SERVER, waits(signal));
      return `${await ingressOf(at[side], layout, signal)}:${VPN_PORT}`;
    },
    async stopVpnServer(side, signal) {
      for (const kind of ["deployments", "statefulsets"] as const)
        await at[side].namespace.stop(kind, VPN_SERVER, signal);
    },

    fenceControllers: async (side, signal) => await fence(at[side], signal),
    async startControllers(side, signal) {
      const [from, to] = side === "destination" ? [source, destination] : [destination, source];
      await requireStopped(from.namespace, CONTROLLERS, signal);
      await handOverExtensions(from, to, waits(signal));
      await handOverMachines(at, { side, move }, waits(signal));
      const others = side === "destination" ? OTHER_CONTROLLERS : [];
      await startControllers(to.namespace, [...others, ...CONTROLLERS], signal);
      if (side === "destination")
        await shoot.mark(
          "MigrateExtensionsNeededBeforeKubeAPIServer",
          "True",
          "extensions are restored",
          signal,
        );
    },
    async resumeControllers(signal) {
      if (await isReachable(servers.destination, signal))
        await requireStopped(destination.namespace, CONTROLLERS, signal);
      await startControllers(source.namespace, CONTROLLERS, signal);
    },

    async finishBackups(signal) {
      await handOverBackups(garden, layout, waits(signal));
      for (const etcd of layout.etcds) {
        const store = (await findEtcd(destination, etcd, signal))?.spec.backup.store;
        if (store !== undefined) await takeSnapshot(destination, etcd, move, waits(signal));
      }
    },

    adopt: async (signal) => await shoot.bind(signal),
  };
}
