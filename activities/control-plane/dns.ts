import { isIPv4, isIPv6 } from "node:net";
import { awaitAuthoritative } from "../../dns/authoritative.ts";
import { LostRaceError, RefusedError, UnreachableError } from "../../dns/errors.ts";
import { describeServer, parseServer, sameValues } from "../../dns/names.ts";
import type { AddressType } from "../../dns/names.ts";
import { query } from "../../dns/query.ts";
import { readTsigKey } from "../../dns/tsig.ts";
import { proveUpdatable, replaceAddresses } from "../../dns/update.ts";
import type { UpdateOptions } from "../../dns/update.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
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

export function createDnsActivities(sites: ControlPlaneSites): Steps {
  return {
    setRecordTtl: step(sites, "ExposeSourcePeers", async (session, { record }) => {
      return { at: await setRecord(sites, session, record.values, record) };
    }),

    restoreRecordTtl: undoStep(sites, "ExposeSourcePeers", async (session, { record }) => {
      await setRecord(sites, session, record.values, record);
    }),

    switchDns: step(sites, "SwitchDNS", async (session, { fromValues, toRecord }) => {
      return { switchedAt: await setRecord(sites, session, fromValues, toRecord) };
    }),

    switchDnsBack: step(sites, "SwitchDNS", async (session, { fromValues, toRecord }) => {
      return { switchedAt: await setRecord(sites, session, fromValues, toRecord) };
    }),
  };
}

/** @returns when every authoritative server had it, ms since the epoch. */
export async function setRecord(
  sites: ControlPlaneSites,
  { config, signal }: Session,
  from: readonly string[],
  to: DnsRecordState,
): Promise<number> {
  const options = await updateOptions(sites, config.apiServer.dnsName, to.values, signal);
  try {
    await replaceAddresses({ ...options, from: { values: from }, to });
  } catch (error) {
    if (!(error instanceof LostRaceError)) throw error;
    throw failure("Conflict", {
      message: `somebody else has changed the DNS record ${config.apiServer.dnsName}`,
      site: error.server,
      expected: from.join(", "),
      found: error.found.join(", ") || "nothing",
      advice: "set it back to what is expected, or find out who manages it, and start the move again",
    });
  }
  await awaitAuthoritative({ ...options, expected: to, timeoutMs: EVERYWHERE_MS });
  return Date.now();
}

async function updateOptions(
  sites: ControlPlaneSites,
  name: string,
  values: readonly string[],
  signal: AbortSignal,
): Promise<UpdateOptions> {
  const { servers, zone, tsig } = sites.dns;
  return {
    servers: servers.map(parseServer),
    zone,
    name,
    type: typeOf(values),
    tsig: await readTsigKey(tsig),
    signal,
  };
}

function typeOf([value = ""]: readonly string[]): AddressType {
  if (isIPv4(value)) return "A";
  return isIPv6(value) ? "AAAA" : "CNAME";
}

/**
 * Reads the record at every authoritative server.
 * @param values that it must have, being those of the API servers where the control plane is.
 * @throws ApplicationFailure `Refused` when a server tells otherwise, or does not take the key.
 */
export async function checkRecord(
  sites: ControlPlaneSites,
  name: string,
  values: readonly string[],
  signal: AbortSignal,
): Promise<DnsRecordState> {
  const options = await updateOptions(sites, name, values, signal);
  const answers = await Promise.all(
    options.servers.map(async (server) => {
      try {
        const { values: found, ttlSeconds } = await query(server, name, options.type, { signal });
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
  await requireKey(options, values);
  return { values, ttlSeconds: Math.max(...answers.map(({ ttlSeconds }) => ttlSeconds)) };
}

async function requireKey(options: UpdateOptions, values: readonly string[]): Promise<void> {
  try {
    await proveUpdatable({ ...options, values });
  } catch (error) {
    if (!(error instanceof RefusedError || error instanceof UnreachableError)) throw error;
    throw failure("Refused", {
      message: `dns: the record ${options.name} cannot be changed with the key ${options.tsig.name}`,
      found: error.message,
      advice:
        "check dns.tsig in rehome.yaml, the servers' allow-update or update-policy, and that the first server is the primary",
    });
  }
}
