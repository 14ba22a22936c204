import { rangesOf } from "../../etcd/scan.ts";
import { lockHolder } from "../../etcd/token.ts";
import { isClusterId } from "../../etcd/keys.ts";
import { logicalClusterMigrationInput } from "../../inputs/logical-cluster-migration.ts";
import type { LogicalClusterMigrationInput } from "../../inputs/logical-cluster-migration.ts";
import { ANNOTATION, logicalClusterPath } from "../../kubernetes/kcp/logical-cluster.ts";
import type { LogicalCluster } from "../../kubernetes/kcp/logical-cluster.ts";
import { unlessAborted } from "../../kubernetes/wait.ts";
import type { KcpSite, Shard } from "../../sites/kcp.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { parseInput } from "../parse-input.ts";
import {
  checkApiBindings,
  checkShard,
  chooseFence,
  unreachableStore,
  versionWarnings,
} from "./preflight-shard.ts";
import { refuseShortWait } from "./heal-inactive.ts";
import { checkEncryption } from "./preflight-encryption.ts";
import { checkCache } from "./copies.ts";
import { contentWarnings, refuseUnmovableContent } from "./preflight-content.ts";
import { refuseOwnRules } from "./preflight-rules.ts";
import { readLogicalCluster } from "./session.ts";
import { beginWork } from "../work.ts";
import type { Admission, LogicalClusterActivities } from "./types.ts";

/** One that does not answer must not hold up the moves of all others. */
const STORE_DEADLINE_MS = 5_000;
const CUTS_ALL =
  "the fence inactive ends all watches of all clusters at the shard for a moment; what others delete in it goes on to count there until its API server is restarted, and the report names it";
const EXAMPLE = { logicalCluster: "root:team-a", to: "shard-1" };

/** Cluster and path as the platform knows them, whichever of the two was typed. */
interface Resolved {
  readonly cluster: string;
  readonly path: string;
}

/**
 * Reads everything that decides whether the move is possible, and refuses it with the field, the value and the fix.
 * Writes nothing anywhere.
 */
export function createPreflight(site: KcpSite): LogicalClusterActivities["preflight"] {
  return async (raw) => {
    using _ = beginWork("Preflight");
    const input = parseInput(logicalClusterMigrationInput, raw, EXAMPLE);
    refuseUnmovable(input.logicalCluster);
    const to = await namedShard(site, "to", input.to);
    if (input.from !== undefined) await namedShard(site, "from", input.from);
    await checkShard(to, "to");
    const resolved = await resolve(site, input.logicalCluster);
    refuseUnmovable(resolved.path);
    await refuseHomeOfFence(site, resolved);
    const from = await locate(site, resolved);
    refuseWrongShard(input, resolved, from);
    await checkShard(from, "from");
    await checkStoresDiffer(from, to);
    await checkLocks(resolved, from, to);
    await checkCluster(resolved, from);
    await checkDestinationEmpty(resolved, to);
    await Promise.all([
      checkApiBindings(site, from, resolved.cluster),
      refuseUnmovableContent(from, resolved.cluster),
      refuseOwnRules(from, resolved.cluster),
    ]);
    return await admission(site, input, resolved, from, to);
  };
}

async function admission(
  site: KcpSite,
  input: LogicalClusterMigrationInput,
  { cluster, path }: Resolved,
  from: Shard,
  to: Shard,
): Promise<Admission> {
  const ranges = await rangesOf(from.store, cluster);
  const families = ranges.map(({ family }) => family);
  const [ours, theirs, fence, versions, encryption, cache] = await Promise.all([
    from.store.head(),
    to.store.head(),
    chooseFence(input, from),
    versionWarnings([from, to]),
    checkEncryption(from, to, ranges),
    checkCache(site, from.name, families),
  ]);
  if (fence === "inactive") refuseShortWait(input);
  const gap = ours > theirs ? ours - theirs : 0n;
  if (input.revisions === "align" && gap > BigInt(input.maxRevisionGap)) {
    throw failure("Refused", {
      message: `the revision of ${from.name} is ${gap} ahead of that of ${to.name}, which takes about ${gap / 4000n} s to bridge`,
      advice: `raise maxRevisionGap (now ${input.maxRevisionGap}), or give "revisions": "accept-relist"`,
    });
  }
  return {
    input,
    cluster,
    path,
    fence,
    warnings: [
      ...(fence === "inactive" ? [`${from.name}: ${CUTS_ALL}`] : []),
      ...versions,
      ...encryption,
      ...cache,
      ...(await contentWarnings(from.store, cluster, families)),
    ],
    from: from.name,
    to: to.name,
    keys: ranges.reduce((sum, { keys }) => sum + keys, -1),
    families: ranges.map(({ family, keys }) => ({
      family,
      keys,
    })),
    revisionGap: String(gap),
  };
}

function refuseUnmovable(name: string): void {
  const why =
    name === "root"
      ? "root is bound to the root shard"
      : name.startsWith("system:")
        ? "system clusters belong to their shard"
        : name.startsWith("user:") || name === "user"
          ? "home workspaces are made again by the shard that hosts root"
          : undefined;
  if (why) {
    throw failure("Refused", {
      message: `logicalCluster: ${JSON.stringify(name)} cannot be moved: ${why}`,
      advice: "name a workspace below root",
    });
  }
}

/** What sets and lifts the fence is an object in there, which nobody could change any more. */
async function refuseHomeOfFence(site: KcpSite, { cluster, path }: Resolved): Promise<void> {
  const { status, body } = await site.frontProxy.request({ path: logicalClusterPath(site.fenceWorkspace) });
  const home = status === 200 ? (JSON.parse(body) as LogicalCluster) : undefined;
  if (home?.metadata.annotations?.[ANNOTATION.cluster] !== cluster) return;
  throw failure("Refused", {
    message: `${path} (${cluster}) cannot be moved: it is the workspace of kcp.fenceWorkspace, through which moves are fenced`,
    advice:
      "give kcp.fenceWorkspace in rehome.yaml another workspace while no move is under way, then start again",
  });
}

async function namedShard(site: KcpSite, field: "to" | "from", name: string): Promise<Shard> {
  if (site.shardNames.includes(name)) return await site.shard(name);
  throw failure("InvalidInput", {
    message: `${field}: no shard ${JSON.stringify(name)} in the worker's configuration`,
    expected: `one of ${site.shardNames.join(", ")}`,
    advice: "correct the name, or add the shard to kcp.shards in rehome.yaml",
  });
}

async function resolve(site: KcpSite, name: string): Promise<Resolved> {
  const answer = await site.frontProxy.request({ path: logicalClusterPath(name) }).catch((error: unknown) => {
    throw failure("Refused", {
      message: `the front-proxy at ${site.frontProxy.url} cannot be reached`,
      found: error instanceof Error ? error.message : String(error),
      advice: "check kcp.frontProxies in rehome.yaml",
    });
  });
  if (answer.status !== 200) {
    throw failure("Refused", {
      message: `logicalCluster: ${JSON.stringify(name)} does not resolve to a logical cluster`,
      site: site.frontProxy.name,
      found: `${answer.status} ${answer.body.slice(0, 200).trim()}`,
      advice: "check the path with `kubectl get workspaces`, or give the id in spec.cluster of the Workspace",
    });
  }
  const { metadata } = JSON.parse(answer.body) as LogicalCluster;
  const cluster = metadata.annotations?.[ANNOTATION.cluster] ?? name;
  if (!isClusterId(cluster)) {
    throw failure("Refused", {
      message: `logical cluster ${JSON.stringify(cluster)} has an id that cannot be moved`,
    });
  }
  return { cluster, path: metadata.annotations?.[ANNOTATION.path] ?? name };
}

/** The shard whose store holds the LogicalCluster object. A store that does not answer matters only if none has it. */
async function locate(site: KcpSite, { cluster, path }: Resolved): Promise<Shard> {
  const shards = await Promise.all(site.shardNames.map(async (name) => await site.shard(name)));
  const soon = AbortSignal.timeout(STORE_DEADLINE_MS);
  const answers = await Promise.allSettled(
    shards.map(async (shard) => await unlessAborted(readLogicalCluster(shard, cluster), soon)),
  );
  const holders = shards.filter((_, index) => {
    const answer = answers[index]!;
    return answer.status === "fulfilled" && answer.value !== undefined;
  });
  const silent = answers.findIndex(({ status }) => status === "rejected");
  if (holders.length === 0 && silent >= 0) {
    throw unreachableStore(shards[silent]!, "from", (answers[silent] as PromiseRejectedResult).reason);
  }
  const [holder, second] = holders;
  if (!holder) {
    throw failure("Refused", {
      message: `${path} (${cluster}) is in none of the configured stores`,
      expected: `a LogicalCluster under its prefix in one of: ${shards.map(({ store }) => `${store.name} ${store.prefix}`).join(", ")}`,
      advice: "add its shard to kcp.shards in rehome.yaml, or correct etcd.endpoints or etcd.prefix there",
    });
  }
  if (second) {
    throw failure("Refused", {
      message: `${path} (${cluster}) is on two shards: ${holders.map(({ name }) => name).join(", ")}`,
      advice: "finish the move that left it so: reset its workflow (temporal workflow reset)",
    });
  }
  return holder;
}

function refuseWrongShard(input: LogicalClusterMigrationInput, { path }: Resolved, from: Shard): void {
  if (input.from !== undefined && input.from !== from.name) {
    throw failure("Refused", {
      message: `from: ${path} is on ${from.name}, not on ${JSON.stringify(input.from)}`,
    });
  }
  if (input.to !== from.name) return;
  throw failure("Refused", {
    message: `to: ${path} is on ${JSON.stringify(input.to)} already`,
    advice: "name another shard",
  });
}

async function checkStoresDiffer(from: Shard, to: Shard): Promise<void> {
  const [ours, theirs] = await Promise.all([from.store.clusterId(), to.store.clusterId()]);
  if (ours === theirs) {
    throw failure("Refused", {
      message: `shards ${from.name} and ${to.name} have the same etcd in the worker's configuration`,
      advice: "correct kcp.shards.*.etcd in rehome.yaml: each shard needs its own",
    });
  }
  if (from.store.prefix === to.store.prefix) return;
  throw failure("Refused", {
    message: `etcd prefixes differ: ${from.store.prefix} at ${from.name}, ${to.store.prefix} at ${to.name}`,
    advice: "only shards with the same --etcd-prefix can exchange clusters",
  });
}

async function checkLocks({ cluster, path }: Resolved, from: Shard, to: Shard): Promise<void> {
  for (const { store } of [from, to]) {
    const holder = await lockHolder(store, cluster);
    if (holder === undefined) continue;
    const workflow = holder.split(" ")[0];
    throw failure("Refused", {
      message: `${path} (${cluster}) is being moved already, by workflow ${workflow}`,
      site: store.name,
      advice: `watch it, or where it was terminated let it end: temporal workflow reset --workflow-id ${workflow} --run-id <of the terminated run> --type LastWorkflowTask --reason unfinished`,
    });
  }
}

async function checkCluster({ cluster, path }: Resolved, from: Shard): Promise<void> {
  const { object } = (await readLogicalCluster(from, cluster))!;
  const { annotations = {}, deletionTimestamp } = object.metadata;
  const migrating = annotations[ANNOTATION.migrating];
  const inactive = annotations[ANNOTATION.inactive] ?? annotations[ANNOTATION.inactiveLegacy];
  const why =
    deletionTimestamp !== undefined
      ? "it is being deleted"
      : migrating !== undefined
        ? `kcp's own LogicalClusterMigration ${migrating} has claimed it`
        : inactive === "true"
          ? "it is marked inactive"
          : object.status?.phase !== "Ready"
            ? `its phase is ${object.status?.phase ?? "unknown"}, not Ready`
            : undefined;
  if (why)
    throw failure("Refused", {
      message: `${path} (${cluster}) cannot be moved now: ${why}`,
      site: from.name,
    });
}

async function checkDestinationEmpty({ cluster }: Resolved, to: Shard): Promise<void> {
  const ranges = await rangesOf(to.store, cluster);
  if (ranges.length === 0) return;
  throw failure("Refused", {
    message: `${to.name} already holds keys of ${cluster} that no move under way has put there`,
    site: to.store.name,
    found: ranges.map(({ family, keys }) => `${family}: ${keys}`).join(", "),
    advice: "find out whose they are and remove them, then start again",
  });
}
