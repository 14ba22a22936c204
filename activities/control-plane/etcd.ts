import { ApiError } from "../../kubernetes/api-server.ts";
import { SupersededError } from "../../etcd/errors.ts";
import { MembershipError } from "../../etcd/membership/errors.ts";
import { ClaimedError } from "../../hosting/types.ts";
import { EtcdCluster } from "../../etcd/membership/cluster.ts";
import { listMembers } from "../../etcd/membership/converge.ts";
import type { Site, Step } from "../../etcd/membership/plan.ts";
import { permitStep, surveyMembers } from "../../etcd/membership/survey.ts";
import type { Survey } from "../../etcd/membership/survey.ts";
import type { ChangeOptions, Member } from "../../etcd/membership/types.ts";
import type { MemberAddress } from "../../hosting/types.ts";
import { together } from "../../kubernetes/wait.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { Session } from "./session.ts";
import type { EtcdLayout, MemberRef, StretchedSubject } from "./types.ts";

/** One step of membership may take this long, waits for a member to catch up included. */
const STEP_DEADLINE_MS = 20 * 60_000;

/** One etcd that is, or is to be, stretched over both seeds. */
export interface StretchedEtcd extends Disposable {
  readonly name: string;
  readonly cluster: EtcdCluster;
  readonly layout: EtcdLayout;
  /** Changes under it are made only while this attempt holds the claim. */
  readonly wait: ChangeOptions;
  /** Reads the members, and which side each is on. @throws ApplicationFailure `Refused` for a member of neither. */
  readonly survey: () => Promise<Survey>;
  /** The member at an address, if it is one. */
  readonly memberAt: (address: MemberAddress) => Promise<Member | undefined>;
  /** How to make a step: only when the quorum's arithmetic allows it, which is asked again just before each attempt. */
  readonly allowed: (step: Step, hashesEqual?: boolean) => ChangeOptions;
}

export async function openEtcd(
  session: Session,
  layout: EtcdLayout,
  maxLagRevisions: number,
): Promise<StretchedEtcd> {
  const { hosting, signal, subject } = session;
  const { name, source, destination, inner } = layout;
  const tls = await hosting.credentials(name, signal);
  const endpoints = [...source, ...destination].map(({ clientUrl }) => clientUrl);
  const cluster = new EtcdCluster({ name: `${name} of ${subject.controlPlane}`, endpoints, tls });
  const ofSource = new Set([...source.map(({ peerUrl }) => peerUrl), ...Object.values(inner)]);
  const ofDestination = new Set(destination.map(({ peerUrl }) => peerUrl));

  const siteOf = (member: Member): Site => {
    if (member.peerUrls.some((url) => ofSource.has(url))) return "source";
    if (member.peerUrls.some((url) => ofDestination.has(url))) return "destination";
    throw failure("Refused", {
      message: `${cluster.name} has a member of neither seed: ${member.id} (${member.name || "not started"})`,
      found: member.peerUrls.join(", "),
      advice: "find out who added it, and remove it with etcdctl member remove",
    });
  };
  const held = async (until: AbortSignal) => {
    try {
      await hosting.requireClaim(until);
    } catch (error) {
      if (error instanceof ClaimedError || error instanceof SupersededError) throw error;
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error;
      until.throwIfAborted();
      // Asked again, like a member: a step must not end between two changes because a seed's API server is restarted.
      throw new MembershipError(cluster.name, "claim", "unreachable", (error as Error).message);
    }
  };
  const wait: ChangeOptions = { signal, deadlineMs: STEP_DEADLINE_MS, permit: held };
  const survey = async () => await surveyMembers(cluster, siteOf, { maxLagRevisions }, signal);

  return {
    name,
    cluster,
    layout,
    wait,
    survey,
    async memberAt({ pod, peerUrl }) {
      const { members } = await listMembers(cluster, signal);
      const urls = destination.some((address) => address.peerUrl === peerUrl)
        ? [peerUrl]
        : [peerUrl, inner[pod]];
      return members.find(({ peerUrls }) => peerUrls.some((url) => urls.includes(url)));
    },
    allowed(step, hashesEqual = false) {
      const permit = permitStep(cluster, { siteOf, step, limit: { maxLagRevisions }, hashesEqual });
      return {
        ...wait,
        permit: async (until) => {
          await permit(until);
          await held(until);
        },
      };
    },
    [Symbol.dispose]: () => cluster.close(),
  };
}

type Layouts = Pick<StretchedSubject, "layouts" | "maxLagRevisions">;

/** Runs for all etcds at once, and ends when all have ended. @throws the first of their errors */
export async function allEtcds<T>(
  session: Session,
  input: Layouts,
  run: (etcd: StretchedEtcd) => Promise<T>,
): Promise<T[]> {
  const ended = await together(
    input.layouts,
    async (layout) => await forEachEtcd(session, { ...input, layouts: [layout] }, run),
  );
  return ended.flat();
}

/** Runs once, with all etcds at hand. */
export async function withAllEtcds<T>(
  session: Session,
  { layouts, maxLagRevisions }: Layouts,
  run: (etcds: readonly StretchedEtcd[]) => Promise<T>,
): Promise<T> {
  using opened = new DisposableStack();
  const etcds: StretchedEtcd[] = [];
  for (const layout of layouts) etcds.push(opened.use(await openEtcd(session, layout, maxLagRevisions)));
  return await run(etcds);
}

/** Runs for one etcd after the other. */
export async function forEachEtcd<T>(
  session: Session,
  { layouts, maxLagRevisions }: Layouts,
  run: (etcd: StretchedEtcd) => Promise<T>,
): Promise<T[]> {
  const results: T[] = [];
  for (const layout of layouts) {
    using etcd = await openEtcd(session, layout, maxLagRevisions);
    results.push(await run(etcd));
  }
  return results;
}

export function refOf(etcd: string, { id, name, peerUrls: [peerUrl = ""] }: Member): MemberRef {
  return { etcd, member: name, id, peerUrl };
}
