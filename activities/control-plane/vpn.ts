import type { ApiServer } from "../../kubernetes/api-server.ts";
import { converge } from "../../kubernetes/converge.ts";
import { apply, awaitObject, awaitObjects, removeObject } from "../../kubernetes/objects.ts";
import type { KubeObject } from "../../kubernetes/objects.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import { failure } from "../../workflows/engine/failures.ts";
import type { Side } from "../../hosting/types.ts";
import type { ControlPlaneConfig } from "../../sites/config-control-planes.ts";

type Vpn = NonNullable<ControlPlaneConfig["vpn"]>;

interface Deployment extends KubeObject {
  readonly metadata: KubeObject["metadata"] & { readonly generation?: number };
  readonly spec: {
    readonly replicas?: number;
    /** The API server puts in its default. */
    readonly strategy: object;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly template: {
      readonly metadata?: {
        readonly labels?: Readonly<Record<string, string>>;
        readonly annotations?: Readonly<Record<string, string>>;
      };
      readonly spec: {
        readonly containers: readonly {
          readonly env?: readonly { readonly name: string; readonly value?: string }[];
        }[];
      };
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly updatedReplicas?: number;
    readonly readyReplicas?: number;
    readonly replicas?: number;
  };
}

/** A pod of the bridge or of the regular clients is told apart by this label. */
const BRIDGE = "rehome.dev/vpn-bridge";
const MOVED = "rehome.dev/vpn-moved";
/** The strategy of the regular clients' Deployment while they are moved one at a time. */
const STRATEGY = "rehome.dev/vpn-strategy";
const DEADLINE_MS = 5 * 60_000;
const PROBE = { everyMs: 200, deadlineMs: 60_000 };

const deploymentsOf = ({ client }: Vpn) => `/apis/apps/v1/namespaces/${client.namespace}/deployments`;
const bridgeName = ({ client }: Vpn, side: Side) => `${client.deployment}-bridge-${side}`;

/**
 * Runs a VPN client more in the data plane, a copy of the regular ones, that dials `endpoint` whatever the DNS record
 * says: so the API servers of that side reach the nodes while the name points to the other side.
 */
export async function makeBridge(
  api: ApiServer,
  vpn: Vpn,
  side: Side,
  endpoint: string,
  signal: AbortSignal,
): Promise<void> {
  const path = deploymentsOf(vpn);
  const regular = await api.json<Deployment>({ path: `${path}/${vpn.client.deployment}`, signal });
  const { template } = regular.spec;
  const labels = { ...template.metadata?.labels, [BRIDGE]: side };
  const variable = vpn.client.endpointVariable;
  const containers = template.spec.containers.map((container) => ({
    ...container,
    env: container.env?.map((entry) =>
      entry.name === variable ? { name: variable, value: endpoint } : entry,
    ),
  }));
  await apply(api, path, {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: bridgeName(vpn, side), namespace: vpn.client.namespace, labels: { [BRIDGE]: side } },
    spec: {
      replicas: 1,
      selector: { matchLabels: { [BRIDGE]: side } },
      // One object's pods must not be counted as the other's.
      template: {
        ...template,
        metadata: { ...template.metadata, labels: withoutKeys(labels, regular.spec.selector.matchLabels) },
        spec: { ...template.spec, containers },
      },
    },
  } as KubeObject);
  await awaitReplicas(api, vpn, bridgeName(vpn, side), signal);
}

export async function removeBridge(api: ApiServer, vpn: Vpn, side: Side): Promise<void> {
  await removeObject(api, `${deploymentsOf(vpn)}/${bridgeName(vpn, side)}`);
}

export async function awaitBridgeGone(
  api: ApiServer,
  vpn: Vpn,
  side: Side,
  signal: AbortSignal,
): Promise<void> {
  const pods = { path: `/api/v1/namespaces/${vpn.client.namespace}/pods`, labels: { [BRIDGE]: side } };
  await awaitObjects(api, pods, (found) => found.length === 0 || "a pod of the bridge is still there", {
    what: "the VPN bridge is gone",
    deadlineMs: DEADLINE_MS,
    signal,
  });
}

/**
 * Makes the regular clients connect anew, and so follow the DNS record, one at a time: each is deleted only after the
 * one before it is ready again. A repetition goes on where it was.
 */
export async function moveClients(
  api: ApiServer,
  vpn: Vpn,
  { move, towards }: { readonly move: string; readonly towards: Side },
  signal: AbortSignal,
): Promise<void> {
  const path = `${deploymentsOf(vpn)}/${vpn.client.deployment}`;
  const moved = `${move} ${towards}`;
  const oneAtATime = { type: "RollingUpdate", rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } };
  await converge<Deployment>(
    api,
    path,
    ({ metadata, spec }) => ({
      metadata: {
        annotations: { [STRATEGY]: metadata.annotations?.[STRATEGY] ?? JSON.stringify(spec.strategy) },
      },
      spec: {
        strategy: oneAtATime,
        template: { metadata: { annotations: { [MOVED]: moved } } },
      },
    }),
    signal,
  );
  await awaitReplicas(api, vpn, vpn.client.deployment, signal);
  await converge<Deployment>(api, path, (found) => withOwnStrategy(found, moved), signal);
}

/** How its owner wants the Deployment to be rolled out, unless it is rolled out for something else by now. */
function withOwnStrategy({ metadata, spec }: Deployment, moved: string): object | undefined {
  const kept = metadata.annotations?.[STRATEGY];
  const rolledOutFor = spec.template.metadata?.annotations?.[MOVED] ?? moved;
  if (kept === undefined || rolledOutFor !== moved) return undefined;
  const strategy = { rollingUpdate: null, ...(JSON.parse(kept) as object) };
  return { metadata: { annotations: { [STRATEGY]: null } }, spec: { strategy } };
}

/**
 * @throws ApplicationFailure `Refused` where the VPN's clients are not a Deployment whose pods are told by a variable whom to
 *   dial: of others no bridge can be made.
 */
export async function requireClients(api: ApiServer, vpn: Vpn, signal: AbortSignal): Promise<void> {
  const { namespace, deployment, endpointVariable } = vpn.client;
  const found = await api.find<Deployment>({ path: `${deploymentsOf(vpn)}/${deployment}`, signal });
  const isTold = found?.spec.template.spec.containers.some(({ env }) =>
    env?.some(({ name }) => name === endpointVariable),
  );
  if (isTold) return;
  throw failure("Refused", {
    message: `vpn.client: ${api.name} has no Deployment ${namespace}/${deployment} with the variable ${endpointVariable}`,
    found: found === undefined ? "no such Deployment" : "a Deployment whose containers have no such variable",
    advice: "correct vpn.client in rehome.yaml; clients that are a StatefulSet cannot be bridged",
  });
}

/** Asks through an API server for a pod that it reaches only through the tunnel, until it answers. */
export async function probeVpn(api: ApiServer, vpn: Vpn, signal: AbortSignal): Promise<void> {
  const answers = async () => (await whyVpnFails(api, vpn, signal)) ?? true;
  await pollUntil(`${vpn.probe.pod} answers through the VPN of ${api.name}`, answers, { ...PROBE, signal });
}

/** @returns what came instead of an answer, or undefined when all is well. */
export async function whyVpnFails(
  api: ApiServer,
  { probe }: Vpn,
  signal: AbortSignal,
): Promise<string | undefined> {
  const path = `/api/v1/namespaces/${probe.namespace}/pods/http:${probe.pod}:${probe.port}/proxy/`;
  const { status, body } = await api.request({ path, timeoutMs: 5_000, signal });
  return status === 200 ? undefined : `${status} ${body.slice(0, 200)}`;
}

async function awaitReplicas(api: ApiServer, vpn: Vpn, name: string, signal: AbortSignal): Promise<void> {
  const options = { what: `${name} is rolled out`, deadlineMs: DEADLINE_MS, signal };
  await awaitObject(api, { path: deploymentsOf(vpn), name }, rolledOut, options);
}

/** As `kubectl rollout status` judges it. */
function rolledOut(deployment: Deployment | undefined): true | string {
  if (deployment === undefined) return "no Deployment";
  const { metadata, spec, status } = deployment;
  const wanted = spec.replicas ?? 1;
  const { observedGeneration = 0, updatedReplicas = 0, readyReplicas = 0, replicas = 0 } = status ?? {};
  const done =
    observedGeneration >= (metadata.generation ?? 0) &&
    updatedReplicas === wanted &&
    replicas === wanted &&
    readyReplicas === wanted;
  return done || `${updatedReplicas} updated, ${readyReplicas} ready of ${wanted}`;
}

function withoutKeys(labels: Readonly<Record<string, string>>, keys: Readonly<Record<string, string>>) {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !Object.hasOwn(keys, name)));
}
