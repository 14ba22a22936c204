import { setTimeout as delay } from "node:timers/promises";
import type { V1Node } from "@kubernetes/client-node";
import { ifFound, mergePatch, statusOf, strategicMergePatch } from "./api.ts";
import type { NodeApi } from "./api.ts";
import { tell, wordsOf } from "./tell.ts";

export interface NodeIdentity {
  readonly name: string;
  readonly address: string;
}

const heartbeatEveryMs = 10_000;
const leaseSeconds = 40;
const leaseNamespace = "kube-node-lease";

/** Registers the node as ready, and renews its lease for as long as the process lives. Resolves after the first of both. */
export async function keepNode(api: NodeApi, identity: NodeIdentity): Promise<void> {
  await untilDone(`node ${identity.name}`, () => beat(api, identity));
  void heartbeats(api, identity);
}

async function heartbeats(api: NodeApi, identity: NodeIdentity): Promise<void> {
  for (;;) {
    await delay(heartbeatEveryMs);
    await beat(api, identity).catch((error: unknown) => tell(`heartbeat: ${wordsOf(error)}`));
  }
}

/** Tries again, once a second, whatever the error: the API server may be on its way somewhere else. */
async function untilDone(what: string, attempt: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      await attempt();
      return;
    } catch (error) {
      tell(`${what}: ${wordsOf(error)}`);
      await delay(1_000);
    }
  }
}

async function beat(api: NodeApi, identity: NodeIdentity): Promise<void> {
  const uid = await ensureNode(api, identity);
  await renewLease(api, identity, uid);
}

async function ensureNode({ core }: NodeApi, { name, address }: NodeIdentity): Promise<string> {
  const found = await ifFound(core.readNode({ name }));
  const node = found ?? (await core.createNode({ body: { metadata: { name, labels: labelsOf(name) } } }));
  if (!isReady(node)) {
    await core.patchNodeStatus({ name, body: { status: nodeStatus(address) } }, strategicMergePatch);
  }
  return node.metadata?.uid ?? "";
}

function labelsOf(name: string): Record<string, string> {
  return { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" };
}

function isReady({ status }: V1Node): boolean {
  return status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

function nodeStatus(address: string) {
  const now = new Date().toISOString();
  const resources = { cpu: "64", memory: "64Gi", pods: "120", "ephemeral-storage": "100Gi" };
  const condition = {
    type: "Ready",
    status: "True",
    reason: "KubeletReady",
    message: "pods are run as processes of this machine",
    lastHeartbeatTime: now,
    lastTransitionTime: now,
  };
  return {
    addresses: [{ type: "InternalIP", address }],
    capacity: resources,
    allocatable: resources,
    conditions: [condition],
  };
}

async function renewLease({ coordination }: NodeApi, { name }: NodeIdentity, uid: string): Promise<void> {
  // Six decimals, as the API's type has them.
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  const spec = { holderIdentity: name, leaseDurationSeconds: leaseSeconds, renewTime };
  const lease = { name, namespace: leaseNamespace };
  try {
    await coordination.patchNamespacedLease({ ...lease, body: { spec } }, mergePatch);
  } catch (error) {
    if (statusOf(error) !== 404) throw error;
    const owner = { apiVersion: "v1", kind: "Node", name, uid };
    await coordination.createNamespacedLease({
      namespace: leaseNamespace,
      body: { metadata: { name, ownerReferences: [owner] } },
    });
    await coordination.patchNamespacedLease({ ...lease, body: { spec } }, mergePatch);
  }
}
