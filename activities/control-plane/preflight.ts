import { NOBODY } from "../../hosting/claim.ts";
import { controlPlaneMigrationInput } from "../../inputs/control-plane-migration.ts";
import type { ControlPlaneMigrationInput } from "../../inputs/control-plane-migration.ts";
import type { ApiServer } from "../../kubernetes/api-server.ts";
import { WaitError } from "../../kubernetes/wait.ts";
import type { ControlPlaneSites } from "../../sites/control-planes.ts";
import { failure } from "../../workflows/engine/failures.ts";
import { parseInput } from "../parse-input.ts";
import { beginWork } from "../work.ts";
import { checkRecord } from "./dns.ts";
import { checkEtcds } from "./etcd-check.ts";
import type { ControlPlaneActivities, ControlPlaneAdmission } from "./types.ts";
import { requireClients } from "./vpn.ts";

const EXAMPLE = { controlPlane: "team-a", to: "seed-b" };

/**
 * Reads everything that decides whether the move is possible, and refuses it with the field, the value and the fix.
 * Writes nothing anywhere.
 */
export function createPreflight(sites: ControlPlaneSites): ControlPlaneActivities["preflightControlPlane"] {
  return async (raw) => {
    using work = beginWork("Preflight");
    try {
      return await check(sites, raw, work.signal);
    } catch (error) {
      // What has not come so long, such as the address of a Service, is a reason at the door.
      if (error instanceof WaitError) throw failure("Refused", error.message);
      throw error;
    }
  };
}

async function check(
  sites: ControlPlaneSites,
  raw: unknown,
  signal: AbortSignal,
): Promise<ControlPlaneAdmission> {
  const input = parseInput(controlPlaneMigrationInput, raw, EXAMPLE);
  const { controlPlane, to } = input;
  requireKnown("controlPlane", controlPlane, sites.names, "controlPlanes");
  requireKnown("to", to, sites.seedNames, "seeds");
  if (input.from !== undefined) requireKnown("from", input.from, sites.seedNames, "seeds");
  const config = sites.controlPlaneConfig(controlPlane);
  await requireReachable(sites.seed(to), `to: seed ${to}`, signal);
  const from = await locate(sites, config.namespace, input, signal);
  const hosted = sites.controlPlane(controlPlane, { source: from, destination: to }, NOBODY);
  const { hosting, api, apiAt } = hosted;
  const inspection = await hosting.inspect(signal);
  if (inspection.refusals.length > 0) throw failure("Refused", inspection.refusals.join("; "));
  const etcds = await checkEtcds(hosting, controlPlane, inspection.etcds, signal);
  await requireReachable(api, `controlPlanes.${controlPlane}.kubeconfig`, signal);
  const { url, values } = await hosting.apiServerAddress("source", signal);
  await requireReachable(apiAt(url), `controlPlanes.${controlPlane}.apiServer`, signal);
  const record = await checkRecord(hosted, values, signal);
  const { vpn, controllers } = inspection;
  if (config.vpn !== undefined) await requireClients(api, config.vpn, signal);
  return {
    input,
    controlPlane,
    from,
    to,
    dnsName: config.apiServer.dnsName,
    vpn,
    controllers,
    etcds,
    record,
  };
}

function requireKnown(field: string, name: string, known: readonly string[], section: string): void {
  if (known.includes(name)) return;
  throw failure("InvalidInput", {
    message: `${field}: ${JSON.stringify(name)} is not in the worker's configuration`,
    expected: known.length === 0 ? `a name under ${section}, which is empty` : `one of ${known.join(", ")}`,
    advice: `correct the name, or add it to ${section} in rehome.yaml`,
  });
}

async function requireReachable(api: ApiServer, field: string, signal: AbortSignal): Promise<void> {
  let found: string;
  try {
    const { status, body } = await api.request({
      path: "/api/v1/namespaces?limit=1",
      timeoutMs: 10_000,
      signal,
    });
    if (status === 200) return;
    found = `${status} ${body.slice(0, 200)}`;
  } catch (error) {
    signal.throwIfAborted();
    found = error instanceof Error ? error.message : String(error);
  }
  throw failure("Refused", {
    message: `${field}: ${api.name} does not serve ${api.url}`,
    found,
    advice: "check its kubeconfig in rehome.yaml (server, certificate authority, credentials)",
  });
}

/** The one seed that has the control plane's namespace. */
async function locate(
  sites: ControlPlaneSites,
  namespace: string,
  { controlPlane, from, to }: ControlPlaneMigrationInput,
  signal: AbortSignal,
): Promise<string> {
  const asked = await Promise.all(
    sites.seedNames.map(async (name) => {
      const seed = sites.seed(name);
      const found = await seed
        .find({ path: `/api/v1/namespaces/${namespace}`, signal })
        .catch((error: Error) => {
          // A seed that has no part in the move may be down.
          if (name === to || name === from) throw error;
          return undefined;
        });
      return found === undefined ? [] : [name];
    }),
  );
  const hosts = asked.flat();
  const [found] =
    from === undefined ? hosts.filter((name) => name !== to) : hosts.filter((name) => name === from);
  if (found !== undefined && found !== to) return found;
  throw failure("Refused", {
    message:
      from === undefined
        ? hosts.includes(to)
          ? `to: ${controlPlane} is at ${to} already`
          : `controlPlane: no seed has the namespace ${namespace} of ${controlPlane}`
        : from === to
          ? `to: ${to} is where it comes from`
          : `from: ${controlPlane} is not at ${from}`,
    found: hosts.length > 0 ? `it is at ${hosts.join(", ")}` : "it is at none of the configured seeds",
    advice: `the configured seeds are ${sites.seedNames.join(", ")}`,
  });
}
