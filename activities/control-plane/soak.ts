import { listAlarms } from "../../etcd/membership/sync.ts";
import { pause } from "../../kubernetes/wait.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { whyNotReady } from "./api-servers.ts";
import { prove } from "./commit.ts";
import { allEtcds } from "./etcd.ts";
import type { StretchedEtcd } from "./etcd.ts";
import { apiOf, step } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities, StretchedSubject } from "./types.ts";
import { whyVpnFails } from "./vpn.ts";

const LOOK_EVERY_MS = 2_000;
/** The soak begins anew after each look that shows a fault; after so many times its length it is given up. */
const PATIENCE = 10;
const LEAST_PATIENCE_MS = 10 * 60_000;

export function createSoakActivities(sites: ControlPlaneSites): Pick<ControlPlaneActivities, "soak"> {
  return {
    soak: step(sites, "Soak", async (session, input) => {
      const end = performance.now() + Math.max(input.soakMs * PATIENCE, LEAST_PATIENCE_MS);
      let greenSince = performance.now();
      let checks = 0;
      for (let isLast = false; !isLast;) {
        const faults = await faultsOf(session, input);
        checks++;
        const now = performance.now();
        if (faults.length > 0) {
          if (now > end) throw unhealthy(session, faults);
          greenSince = now;
        }
        isLast = faults.length === 0 && now - greenSince >= input.soakMs;
        session.tell({ done: Math.round(now - greenSince), total: input.soakMs, unit: "ms of health" });
        if (!isLast) await pause(LOOK_EVERY_MS, session.signal);
      }
      return { checks, proofs: await allEtcds(session, input, prove) };
    }),
  };
}

function unhealthy({ subject }: Session, faults: readonly string[]): Error {
  return failure("Refused", {
    message: `${subject.controlPlane} was not healthy for long enough while both seeds served it`,
    found: faults.join("; "),
    advice: "mend what is named, and start the move again",
  });
}

/** What is wrong at this moment, in words; empty when all is well. */
async function faultsOf(session: Session, input: StretchedSubject): Promise<string[]> {
  const asked = await Promise.allSettled([
    allEtcds(session, input, etcdFaults),
    apiFaults(session, "source"),
    apiFaults(session, "destination"),
  ]);
  session.signal.throwIfAborted();
  return asked.flatMap((answer) =>
    answer.status === "fulfilled" ? answer.value.flat() : [(answer.reason as Error).message],
  );
}

async function etcdFaults(etcd: StretchedEtcd): Promise<string[]> {
  const [alarms, { members }] = await Promise.all([listAlarms(etcd.cluster), etcd.survey()]);
  return [
    ...alarms.map(({ member, alarm }) => `${etcd.name}: alarm ${alarm} at ${member}`),
    ...members.filter(({ healthy }) => !healthy).map(({ id }) => `${etcd.name}: ${id} is not healthy`),
    ...members
      .filter(({ healthy, inSync }) => healthy && !inSync)
      .map(({ id }) => `${etcd.name}: ${id} is out of step`),
  ];
}

async function apiFaults(session: Session, side: "source" | "destination"): Promise<string[]> {
  const api = await apiOf(session, side);
  const unready = await whyNotReady(api, session.signal);
  if (unready !== undefined) return [`${api.name} is not ready: ${unready}`];
  const why = session.config.vpn && (await whyVpnFails(api, session.config.vpn, session.signal));
  return why === undefined ? [] : [`${api.name} does not reach the data plane: ${why}`];
}
