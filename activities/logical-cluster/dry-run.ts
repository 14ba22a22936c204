import { once } from "node:events";
import { rangesOf } from "../../etcd/scan.ts";
import { isEarly } from "../../kubernetes/kcp/families.ts";
import type { KcpSite } from "../../sites/kcp.ts";
import { refuseLateOwner } from "./late-owners.ts";
import { createPreflight } from "./preflight.ts";
import type { LogicalClusterActivities } from "./types.ts";
import { beginWork } from "../work.ts";

const nothing = async () => undefined;

/** The steps of a dry run: they read what the plan tells, and write nothing anywhere. */
export function createLogicalClusterPlan(site: KcpSite): LogicalClusterActivities {
  return {
    preflight: createPreflight(site),
    lock: nothing,
    async alignRevisions({ from, to }) {
      const [origin, destination] = await Promise.all(
        [from, to].map(async (name) => await (await site.shard(name)).store.head()),
      );
      const puts = Math.max(0, Number(origin! - destination!));
      return { from: String(destination), to: String(destination! + BigInt(puts)), puts };
    },
    async copySnapshot({ from, cluster }) {
      const { store } = await site.shard(from);
      const ranges = await rangesOf(store, cluster);
      let bytes = 0;
      let keys = 0;
      for (const range of ranges) {
        for await (const page of store.pages(range)) {
          keys += page.length;
          bytes += page.reduce((sum, { value }) => sum + value.length, 0);
          if (isEarly(range.family)) page.forEach(refuseLateOwner);
        }
      }
      const revision = String(await store.head());
      return { revision, keys, bytes, written: 0, deleted: 0, tombstones: 0, seededCrds: [] };
    },
    catchUp: async () => ({ position: "0", changes: 0, lagMs: 0 }),
    // Goes on until it is stopped, as the real one does; a cancellation is learnt through heartbeats.
    async follow() {
      using work = beginWork("Tail");
      if (!work.signal.aborted) await once(work.signal, "abort");
      work.signal.throwIfAborted();
    },
    async verify() {
      const none = { families: [], allowed: [], allowedTotal: 0, unequal: 0, samples: [] };
      return { position: "0", keys: 0, bytes: 0, ...none };
    },
    takeTurn: nothing,
    prepareFence: nothing,
    async cutover() {
      const never = { fenceAt: 0, fencedAt: 0, drainedAt: 0, checkedAt: 0, switchedAt: 0 };
      return { ...never, position: "0", changes: 0, keys: 0, healed: false };
    },
    awaitRouting: async () => ({ routedAt: 0, frontProxies: site.frontProxies.length }),
    cleanOrigin: async () => ({ deleted: 0, lateWrites: 0, conflicts: [], historyLost: false }),
    finalize: async () => ({ leftInPlace: [] }),
    dismantleFence: nothing,
    clearDestination: nothing,
    unlock: nothing,
  };
}
