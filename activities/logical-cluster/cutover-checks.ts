import { describeDifference } from "../../etcd/compare.ts";
import type { Difference } from "../../etcd/compare.ts";
import { readFloor } from "../../etcd/floor.ts";
import { logicalClusterKey } from "../../etcd/keys.ts";
import type { ClusterRange, Key } from "../../etcd/keys.ts";
import { compareKeys, countKeys } from "../../etcd/verify.ts";
import { differingFields } from "../../kubernetes/differing-fields.ts";
import { isFenced } from "../../kubernetes/kcp/probe.ts";
import type { FenceKind } from "../../kubernetes/kcp/probe.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { allowedBetween } from "./differences.ts";
import type { Session } from "./session.ts";

/** @throws ApplicationFailure `NotVerified` when one of the keys differs for a reason that no rule allows. */
export async function mustBeEqual(
  { from, to, cluster }: Session,
  keys: Set<Key>,
  at: { origin?: bigint; destination?: bigint } = {},
): Promise<void> {
  const left = { store: from.store, ...(at.origin !== undefined && { revision: at.origin }) };
  const right = { store: to.store, ...(at.destination !== undefined && { revision: at.destination }) };
  const allowed = allowedBetween({ from, to });
  const differences: Difference[] = [];
  for (const found of await compareKeys(left, right, keys))
    if ((await allowed(found)) === undefined) differences.push(found);
  if (differences.length === 0) return;
  throw failure("NotVerified", {
    message: `${differences.length} keys of ${cluster} that changed during the move differ`,
    found: differences
      .slice(0, 5)
      .map((difference) => describeDifference(difference, differingFields))
      .join("; "),
  });
}

/** What the origin may count inside the fence. */
export const FENCE_HEADROOM = 500n;

/**
 * @param origin its revision
 * @param headroom what it may still count
 * @throws ApplicationFailure `NotVerified` when the origin has counted, or is about to count, above what was copied, as
 *   after a long wait at a gate: catching up anew lifts the copies.
 */
export async function mustBeAhead(
  { from, to, cluster, align }: Session,
  origin: bigint,
  headroom = FENCE_HEADROOM,
): Promise<void> {
  const floor = align ? await readFloor(to.store, cluster) : undefined;
  if (floor === undefined || origin + headroom <= floor.revision) return;
  throw failure("NotVerified", {
    message: `${from.name} has counted up to what was copied to ${to.name}: the copies are lifted above it again`,
    expected: `a revision of ${from.name} below ${floor.revision - headroom}`,
    found: String(origin),
  });
}

/**
 * @returns the number of keys, the LogicalCluster object left out.
 * @throws ApplicationFailure `NotVerified` when a family has more or fewer keys at the destination.
 */
export async function mustCountAlike(
  { from, to, cluster }: Session,
  ranges: readonly ClusterRange[],
  end: bigint,
): Promise<number> {
  // Pinned, because an etcd lease may expire at the origin after the end of the drain.
  const [left, right] = await Promise.all([countKeys(from.store, ranges, end), countKeys(to.store, ranges)]);
  const object = logicalClusterKey(from.store.prefix, cluster);
  let keys = 0;
  for (const [index, range] of ranges.entries()) {
    const expected = left[index]! - (range.start <= object && object < range.end ? 1 : 0);
    keys += expected;
    if (expected === right[index]) continue;
    throw failure("NotVerified", {
      message: `${range.family} of ${cluster} has ${expected} keys at ${from.name} and ${right[index]} at ${to.name}`,
    });
  }
  return keys;
}

/** Whether the fence is seen at every replica of the origin, and not when one cannot be asked. */
export async function isSeenFenced(
  { from, cluster }: Session,
  kind: FenceKind,
  signal?: AbortSignal,
): Promise<boolean> {
  return await isFenced(from.replicas, cluster, kind, signal).catch(() => false);
}

/**
 * @throws ApplicationFailure `NotVerified` when the origin has been restarted since, and may have served somebody after
 *   the last change was carried over.
 */
export async function mustBeFenced(session: Session, kind: FenceKind): Promise<void> {
  if (await isSeenFenced(session, kind)) return;
  throw failure("NotVerified", `${session.from.name} has forgotten the fence`);
}
