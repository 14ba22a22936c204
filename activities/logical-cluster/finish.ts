import { lockHolder } from "../../etcd/token.ts";
import type { ClearOptions } from "../../kubernetes/kcp/cache.ts";
import { isLate, isLogicalCluster } from "../../kubernetes/kcp/families.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { clearCopiesOf, isUsedFromOutside } from "./copies.ts";
import { isDeleted, isGone } from "./deleted.ts";
import { awaitListedAnew, unlearned } from "./heal-inactive.ts";
import { hasOpenQuestions, healOrigin, removeAnswers, removeStandIn } from "./heal-origin.ts";
import {
  carryLate,
  carryMarks,
  leaveOrigin,
  proveRouted,
  removeRemains,
  removeSettled,
} from "./leave-origin.ts";
import { awaitFound, awaitRouted, nameShardInOwner } from "./routing.ts";
import { fenceOf, mustHoldLock, openSession, releaseLocks, tokenFor } from "./session.ts";
import type { Session } from "./session.ts";
import { raiseAbove } from "./raise-above.ts";
import { reroute } from "./reroute.ts";
import { passDirection } from "./turn.ts";
import type { LogicalClusterActivities } from "./types.ts";
import { beginWork } from "../work.ts";

type Steps = Pick<LogicalClusterActivities, "awaitRouting" | "cleanOrigin" | "finalize">;

const isNotLogicalCluster = (family: string) => !isLogicalCluster(family);

/** What comes after the switch. Nothing here can be undone, and all of it can be done again. */
export function createFinishActivities(site: KcpSite): Steps {
  return {
    async awaitRouting(subject) {
      using work = beginWork("AwaitRouting");
      const session = await openSession(site, subject);
      const drainedAt = BigInt(subject.position);
      const { routedAt, late } = await reroute(site, session, subject, drainedAt, work.signal);
      await passDirection(session, subject);
      if (subject.fence === "inactive") {
        if (late) await carryMarks(session, drainedAt);
        await awaitListedAnew(
          session,
          work.signal,
          async () => await awaitRouted(site, session, work.signal),
        );
        const leftInPlace = await unlearned(session, BigInt(subject.fencedSince ?? drainedAt), work.signal);
        return { routedAt, frontProxies: site.frontProxies.length, leftInPlace };
      }
      // These at once: while two shards hold them, others can resolve neither. What of them has an owner kcp makes anew.
      if (late) await removeSettled(session, drainedAt, late, work, { includes: isLate, atOnce: true });
      return { routedAt, frontProxies: site.frontProxies.length };
    },

    async cleanOrigin(subject) {
      using work = beginWork("OriginCleanup");
      const session = await openSession(site, subject);
      if (await isDeleted(session, site.frontProxy)) return await removeRemains(session, work);
      const drainedAt = BigInt(subject.position);
      const late = await carryLate(session, drainedAt, work.signal);
      if (subject.fence !== "inactive") {
        await leaveOrigin(site, session, drainedAt, work.signal);
        return await removeSettled(session, drainedAt, late, work);
      }
      // This fence is a mark of the LogicalCluster, so that is the last to go.
      await proveRouted(site, session, work.signal);
      const how = { includes: isNotLogicalCluster };
      const cleaned = await removeSettled(session, drainedAt, late, work, how);
      await leaveOrigin(site, session, drainedAt, work.signal);
      return cleaned;
    },

    async finalize(subject) {
      using work = beginWork("Finalize");
      const { signal } = work;
      const { cluster, path, fence } = subject;
      const [from, to] = await Promise.all([site.shard(subject.from), site.shard(subject.to)]);
      const left = leftByAll(from.name, fence, site.fenceWorkspace);
      const holders = await Promise.all(
        [from, to].map(async ({ store }) => await lockHolder(store, cluster)),
      );
      // Of an attempt that has died with nothing left to do but to say so.
      if (!holders.includes(subject.move)) return { leftInPlace: left };
      const held = async () => await mustHoldLock(to, subject);
      const origin = await tokenFor(from, subject);
      const sides = { cluster, from, to };
      if (origin) await removeStandIn(site, { ...sides, origin }, signal);
      const gone = await isGone(from, to, cluster);
      // Whatever the origin's controllers still ask about the cluster is answered, and they are done with it.
      const isHealed =
        !gone &&
        (fence === "inactive" ||
          (await isUsedFromOutside(to.store, cluster)) ||
          (await hasOpenQuestions(sides, signal)));
      if (origin && isHealed) left.push(...(await healOrigin(site, { ...sides, origin }, signal)));
      // What follows is asked of front-proxies, which may have lost their way.
      if (!gone) await awaitFound(site, { ...sides, path }, signal);
      await fenceOf(site, subject, from, async () => await mustHoldLock(from, subject)).dismantle(gone);
      if (origin && isHealed)
        left.push(...(await removeAnswers(from.store, origin, subject.kept ?? [], signal)));
      left.push(...(await clearAll(site, sides, gone, { check: held, signal })));
      if (!gone) {
        await awaitFound(site, { ...sides, path }, signal);
        // Done already, but for moves that left the origin before that did it; by its path it is found through its owner.
        await nameShardInOwner(site.frontProxy, cluster, to.name, held);
      }
      if (!gone) await raiseAbove(to, from, subject, work);
      await releaseLocks(site, subject);
      return { leftInPlace: left };
    },
  };
}

/** What is left in kcp's cache: by the origin, and of a cluster that was deleted meanwhile by both sides. */
async function clearAll(
  site: KcpSite,
  { cluster, from, to }: Pick<Session, "cluster" | "from" | "to">,
  gone: boolean,
  options: ClearOptions,
): Promise<string[]> {
  const left = await clearCopiesOf(site, { cluster, gone: from.name, host: to.name }, options);
  if (!gone) return left;
  return [...left, ...(await clearCopiesOf(site, { cluster, gone: to.name, host: from.name }, options))];
}

function leftByAll(from: string, fence: string, workspace: string): string[] {
  return [
    `CRDs of bound APIs in system:bound-crds at ${from}: shared with other clusters; kcp collects those nobody uses`,
    ...(fence === "migration"
      ? [`APIBinding migration.kcp.io in ${workspace}: serves the fence of later moves`]
      : []),
  ];
}
