import type { ApiServer } from "../../kubernetes/api-server.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import { applyAll, awaitReady } from "./install.ts";
import { secret } from "./manifests/objects.ts";
import {
  echoPod,
  echoPort,
  vpnClientConfig,
  vpnClientDeployment,
  vpnClientMetadata,
} from "./manifests/vpn.ts";
import { systemNamespace } from "./names.ts";
import type { ControlPlanePki } from "./pki.ts";

/** API servers reach it through the VPN only; any of them answers with what the pod says. */
export const echoPath = `/api/v1/namespaces/${systemNamespace}/pods/http:${echoPod().metadata?.name}:${echoPort}/proxy/`;

/** Puts the VPN clients and the pod behind them into the moved cluster. Its node need not be there yet. */
export async function installShootSide(api: ApiServer, pki: ControlPlanePki): Promise<void> {
  // A pod needs it, and it is made by the controllers, which come after the API server.
  await awaitAnswer(api, `/api/v1/namespaces/${systemNamespace}/serviceaccounts/default`);
  await applyAll(api, [secret(vpnClientMetadata, pki.vpnShoot), vpnClientConfig()]);
  await applyAll(api, [vpnClientDeployment(), echoPod()]);
}

/** Waits until the VPN clients are connected and the pod answers through them. */
export async function awaitShootSide(api: ApiServer): Promise<void> {
  await awaitReady(api, [vpnClientDeployment(), echoPod()]);
  await awaitAnswer(api, echoPath);
}

async function awaitAnswer(api: ApiServer, path: string): Promise<void> {
  const ask = async () => {
    const { status, body } = await api.request({ path, timeoutMs: 5_000 });
    return status === 200 || `${status} ${body.slice(0, 300)}`;
  };
  await pollUntil(`GET ${path} at ${api.name} answers`, ask, { everyMs: 100, deadlineMs: 240_000 });
}
