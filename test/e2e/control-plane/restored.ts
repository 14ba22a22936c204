import { expect } from "vitest";
import type {
  V1Deployment,
  V1Namespace,
  V1ObjectMeta,
  V1Secret,
  V1Service,
  V1ValidatingWebhookConfiguration,
} from "@kubernetes/client-node";
import { parseServer } from "../../../dns/names.ts";
import { query } from "../../../dns/query.ts";
import { EtcdCluster } from "../../../etcd/membership/cluster.ts";
import { listMembers } from "../../../etcd/membership/converge.ts";
import type { Member } from "../../../etcd/membership/types.ts";
import { EPOCH } from "../../../hosting/claim.ts";
import { credentialsOf } from "../../../hosting/statefulset/members.ts";
import { SeedNamespace } from "../../../hosting/statefulset/seed.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { list } from "../../../kubernetes/objects.ts";
import {
  apiServerName,
  etcdNames,
  seedNamespace,
  singletons,
  systemNamespace,
} from "../../../testbed/control-plane/names.ts";
import { echoPath } from "../../../testbed/control-plane/shoot-side.ts";
import { otherSeed, TTL_SECONDS } from "./bed.ts";
import type { ControlPlaneBed, SeedName } from "./bed.ts";

/** What Kubernetes puts in where nothing is said, as in the bed. */
const OWN_STRATEGY = { maxSurge: "25%", maxUnavailable: "25%" };
const never = new AbortController().signal;

/**
 * The control plane is in one seed as if it had always been there, and the other has nothing of it: members and their
 * addresses, DNS record, VPN, controllers, namespaces, claims.
 */
export async function expectSettledIn(bed: ControlPlaneBed, seed: SeedName): Promise<void> {
  const { testbed } = bed;
  const here = testbed.seeds[seed].api;
  const there = testbed.seeds[otherSeed(seed)].api;
  const path = `/api/v1/namespaces/${seedNamespace}`;
  expect(await there.find({ path })).toBeUndefined();
  const namespace = await here.json<V1Namespace>({ path });
  expect(notesOn(namespace.metadata)).toEqual([]);

  for (const etcd of etcdNames) {
    const members = await membersOf(bed, seed, etcd);
    expect(members.map(({ name }) => name).toSorted()).toEqual([0, 1, 2].map((i) => `${seed}-${etcd}-${i}`));
    expect(members.filter(({ learner }) => learner)).toEqual([]);
  }

  const address = await apiAddress(bed, seed);
  for (const server of testbed.dns.servers) {
    const { values, ttlSeconds } = await query(parseServer(server), apiServerName, "A");
    expect({ server, values, ttlSeconds }).toEqual({ server, values: [address], ttlSeconds: TTL_SECONDS });
  }

  const deployments = `/apis/apps/v1/namespaces/${seedNamespace}/deployments`;
  for (const name of [...singletons, "kube-apiserver", "kube-controller-manager", "vpn-seed-server"]) {
    const { metadata, spec, status } = await here.json<V1Deployment>({ path: `${deployments}/${name}` });
    expect({ name, ready: status?.readyReplicas, notes: notesOn(metadata) }).toEqual({
      name,
      ready: spec?.replicas,
      notes: [],
    });
    expect(spec?.replicas).toBeGreaterThan(0);
  }
  expect(testbed.fenceJournal().filter(({ event }) => event === "refused")).toEqual([]);

  const api = testbed.apiAt(address);
  const clients = await list<V1Deployment>(api, {
    path: `/apis/apps/v1/namespaces/${systemNamespace}/deployments`,
  });
  expect(clients.items.map(({ metadata }) => metadata?.name)).toEqual(["vpn-shoot"]);
  const [vpn] = clients.items;
  expect(vpn?.spec?.strategy).toEqual({ type: "RollingUpdate", rollingUpdate: OWN_STRATEGY });
  expect(vpn?.metadata?.annotations).not.toHaveProperty(["rehome.dev/vpn-strategy"]);
  expect((await api.request({ path: echoPath })).status).toBe(200);
  const proofs = await list(api, {
    path: "/api/v1/namespaces/kube-system/configmaps",
    labels: { "rehome.dev/proof": "true" },
  });
  expect(proofs.items).toEqual([]);
  expect(await holdsAt(api)).toEqual([]);
}

/** How the members of a seed are reached: their peer URLs, and their Services without what is given out anew. */
export async function addressesOf(bed: ControlPlaneBed, seed: SeedName): Promise<unknown> {
  const members = await Promise.all(etcdNames.map(async (etcd) => await membersOf(bed, seed, etcd)));
  const path = `/api/v1/namespaces/${seedNamespace}/services`;
  const { items } = await list<V1Service>(bed.testbed.seeds[seed].api, { path });
  return {
    members: members.flat().map(({ name, peerUrls }) => ({ name, peerUrls })),
    services: items.map(({ metadata, spec }) => ({
      name: metadata?.name,
      notes: notesOn(metadata),
      type: spec?.type,
      ports: spec?.ports?.map(({ name, port, protocol }) => ({ name, port, protocol })),
    })),
  };
}

/** Lines of the control plane's Secrets that are long enough to be told from other texts. */
export async function secretLines(bed: ControlPlaneBed, seed: SeedName): Promise<readonly string[]> {
  const path = `/api/v1/namespaces/${seedNamespace}/secrets`;
  const { items } = await list<V1Secret>(bed.testbed.seeds[seed].api, { path });
  const texts = items
    .flatMap(({ data = {} }) => Object.values(data))
    .map((value) => Buffer.from(value, "base64"));
  const lines = texts.flatMap((text) => text.toString().split("\n"));
  return lines.filter((line) => line.length >= 24 && !line.startsWith("-----"));
}

/** What lets writes of the control plane wait. */
export async function holdsAt(api: ApiServer): Promise<readonly (string | undefined)[]> {
  const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
  return (await list<V1ValidatingWebhookConfiguration>(api, { path })).items.map(
    ({ metadata }) => metadata?.name,
  );
}

/** What a move has left on an object; the rank of the last attempt stays, so that none of before acts on it. */
function notesOn(metadata: V1ObjectMeta | undefined): string[] {
  return Object.keys(metadata?.annotations ?? {}).filter((key) => key.includes("rehome") && key !== EPOCH);
}

export async function membersOf(
  bed: ControlPlaneBed,
  seed: SeedName,
  etcd: string,
): Promise<readonly Member[]> {
  const namespace = new SeedNamespace(bed.testbed.seeds[seed].api, seedNamespace);
  const tls = await credentialsOf(namespace, etcd, never);
  const host = await namespace.ingressOf(`${etcd}-client-external`, never);
  using cluster = new EtcdCluster({ name: etcd, endpoints: [`https://${host}:2379`], tls });
  return (await listMembers(cluster)).members;
}

export async function apiAddress(bed: ControlPlaneBed, seed: SeedName): Promise<string> {
  const path = `/api/v1/namespaces/${seedNamespace}/services/kube-apiserver`;
  const { status } = await bed.testbed.seeds[seed].api.json<V1Service>({ path });
  return status?.loadBalancer?.ingress?.[0]?.ip ?? "none";
}
