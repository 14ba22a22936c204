import { awaitAuthoritative } from "../../dns/authoritative.ts";
import { LaggingError } from "../../dns/errors.ts";
import { describeServer, sameValues } from "../../dns/names.ts";
import { query } from "../../dns/query.ts";
import { addressTypeOf } from "../../hosting/address-type.ts";
import { RecordTakenError } from "../../hosting/types.ts";
import type { ControlPlane, ControlPlaneSites } from "../../sites/control-planes.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { step, undoStep } from "./session.ts";
import type { Session } from "./session.ts";
import type { ControlPlaneActivities, DnsRecordState } from "./types.ts";

type Steps = Pick<
  ControlPlaneActivities,
  "setRecordTtl" | "restoreRecordTtl" | "switchDns" | "switchDnsBack"
>;

/** Secondaries follow their primary within seconds; one that is down is waited for by the next attempt. */
const EVERYWHERE_MS = 10 * 60_000;
/** In an undo users wait for what comes after. */
const BACK_MS = 30_000;

export function createDnsActivities(sites: ControlPlaneSites): Steps {
  return {
    setRecordTtl: step(sites, "ExposeSourcePeers", async (session, { record }) => {
      return { at: await setRecord(session, record.values, record) };
    }),

    restoreRecordTtl: undoStep(sites, "ExposeSourcePeers", async (session, { record }) => {
      await setRecordBack(session, record.values, record);
    }),

    switchDns: step(sites, "SwitchDNS", async (session, { fromValues, toRecord }) => {
      return { switchedAt: await setRecord(session, fromValues, toRecord) };
    }),

    switchDnsBack: step(sites, "SwitchDNS", async (session, { fromValues, toRecord }) => {
      return { switchedAt: await setRecordBack(session, fromValues, toRecord) };
    }),
  };
}

/**
 * @returns when every authoritative server that is configured had it, ms since the epoch.
 * @throws ApplicationFailure `Conflict` when somebody else has changed the record
 */
export async function setRecord(
  session: Session,
  from: readonly string[],
  to: DnsRecordState,
): Promise<number> {
  try {
    return await replaceRecord(session, from, to, EVERYWHERE_MS);
  } catch (error) {
    throw error instanceof RecordTakenError ? conflict(session, from, error) : error;
  }
}

/**
 * As {@link setRecord}, for an undo: what somebody else has set stays, unless it still leads to where the move went. A server
 * that says nothing all the time, as one that was lost with the destination, is not waited for: it asks its primary when it
 * is back. Where none says anything it is the worker that is cut off.
 */
async function setRecordBack(session: Session, from: readonly string[], to: DnsRecordState): Promise<number> {
  try {
    return await replaceRecord(session, from, to, BACK_MS);
  } catch (error) {
    const silent = error instanceof LaggingError && error.lagging.every((lag) => lag.silent);
    if (silent && error.lagging.length < session.zone!.servers.length) return Date.now();
    if (!(error instanceof RecordTakenError)) throw error;
    const leadsThere = error.found.some((value) => from.includes(value) && !to.values.includes(value));
    if (leadsThere) throw conflict(session, from, error);
    return Date.now();
  }
}

function conflict({ config }: Session, from: readonly string[], { where, found }: RecordTakenError): Error {
  return failure("Conflict", {
    message: `somebody else has changed the DNS record ${config.apiServer.dnsName}`,
    site: where,
    expected: from.join(", "),
    found: found.join(", ") || "nothing",
    advice: "set it back to what is expected, or find out who manages it, and start the move again",
  });
}

async function replaceRecord(
  { hosting, config, zone, signal }: Session,
  from: readonly string[],
  to: DnsRecordState,
  timeoutMs: number,
): Promise<number> {
  await hosting.dns.replace(from, to, signal);
  if (zone !== undefined) {
    const [name, type] = [config.apiServer.dnsName, addressTypeOf(to.values)];
    await awaitAuthoritative({ ...zone, name, type, expected: to, timeoutMs, signal });
  }
  return Date.now();
}

/**
 * Reads the record at every authoritative server that is configured, and finds out whether it can be changed.
 * @param values that it must have, being those of the API servers where the control plane is.
 * @throws ApplicationFailure `Refused`
 */
export async function checkRecord(
  { hosting, config, zone }: ControlPlane,
  values: readonly string[],
  signal: AbortSignal,
): Promise<DnsRecordState> {
  const name = config.apiServer.dnsName;
  const ttls = zone === undefined ? [] : await checkEverywhere(zone.servers, name, values, signal);
  const { ttlSeconds, refusals } = await hosting.dns.inspect(values, signal);
  if (refusals.length > 0) throw failure("Refused", refusals.join("; "));
  return { values, ttlSeconds: Math.max(ttlSeconds, ...ttls) };
}

/** @returns the TTLs. */
async function checkEverywhere(
  servers: NonNullable<ControlPlane["zone"]>["servers"],
  name: string,
  values: readonly string[],
  signal: AbortSignal,
): Promise<number[]> {
  const answers = await Promise.all(
    servers.map(async (server) => {
      try {
        const { values: found, ttlSeconds } = await query(server, name, addressTypeOf(values), { signal });
        const held = found.length === 0 ? "no such record" : found.join(", ");
        return {
          ttlSeconds,
          fault: sameValues(found, values) ? undefined : `${describeServer(server)}: ${held}`,
        };
      } catch (error) {
        signal.throwIfAborted();
        return { ttlSeconds: 0, fault: (error as Error).message };
      }
    }),
  );
  const faults = answers.flatMap(({ fault }) => fault ?? []);
  if (faults.length > 0) {
    throw failure("Refused", {
      message: `the DNS record ${name} is not that of the API servers at every authoritative server`,
      expected: values.join(", "),
      found: faults.join("; "),
      advice: "correct the record, or dns.servers in rehome.yaml",
    });
  }
  return answers.map(({ ttlSeconds }) => ttlSeconds);
}
